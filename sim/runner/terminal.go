package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// terminal is what people and agents read: the real runner's lines, word for word where something may look for them.
type terminal struct {
	mu             sync.Mutex
	stdout, stderr io.Writer
}

// Write passes a step's output through.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stdout.Write(p)
}

func (t *terminal) printf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(t.stdout, format+"\n", args...) // nobody is left to tell
}

// stampedf prints a line that begins with the time, in .NET's universal sortable form.
func (t *terminal) stampedf(format string, args ...any) {
	t.printf("%s: "+format, append([]any{now()}, args...)...)
}

func (t *terminal) errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(t.stderr, format+"\n", args...) // likewise
}

func now() string { return time.Now().UTC().Format("2006-01-02 15:04:05Z") }
