package demo

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Lines writes one plain line for each step: for logs and pipes.
type Lines struct {
	W     io.Writer
	mu    sync.Mutex
	began time.Time
}

// Job writes a job's step.
func (l *Lines) Job(_ int, name, state, detail string) { l.line("%-9s %-10s %s", name, state, detail) }

// Plain writes how long a plain run took.
func (l *Lines) Plain(_ int, took time.Duration) {
	l.line("%-9s %-10s first line after %s", "podman", "run", took.Round(time.Millisecond))
}

// Done does nothing.
func (l *Lines) Done() {}

func (l *Lines) line(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.began.IsZero() {
		l.began = time.Now()
	}
	fmt.Fprintf(l.W, "%6.1fs  %s\n", time.Since(l.began).Seconds(), fmt.Sprintf(format, args...))
}

// Live draws a line for each job that moves through its states on a terminal.
type Live struct {
	p    *mpb.Progress
	mu   sync.Mutex
	jobs map[int]*liveJob
}

type liveJob struct {
	bar           *mpb.Bar
	state, detail string
}

// NewLive draws on w.
func NewLive(w io.Writer) *Live {
	return &Live{p: mpb.New(mpb.WithOutput(w), mpb.WithRefreshRate(100*time.Millisecond), mpb.WithWidth(24)), jobs: map[int]*liveJob{}}
}

// steps of a bar: queued, running, over.
const barSteps = 2

// Job moves a job's line.
func (l *Live) Job(n int, name, state, detail string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j, ok := l.jobs[n]
	if !ok {
		j = &liveJob{}
		l.jobs[n] = j
		text := func(decor.Statistics) string {
			l.mu.Lock()
			defer l.mu.Unlock()
			return fmt.Sprintf("%-10s %s", j.state, j.detail)
		}
		j.bar = l.p.AddBar(barSteps, mpb.PrependDecorators(decor.Name(name+" ")), mpb.AppendDecorators(decor.Any(text)))
	}
	j.state, j.detail = state, detail
	switch state {
	case "queued":
	case "running":
		j.bar.SetCurrent(1)
	default:
		j.bar.SetCurrent(barSteps)
	}
}

// Plain says nothing: the summary does.
func (l *Live) Plain(int, time.Duration) {}

// Done finishes the drawing.
func (l *Live) Done() {
	l.mu.Lock()
	for _, j := range l.jobs {
		j.bar.Abort(false)
	}
	l.mu.Unlock()
	l.p.Wait()
}
