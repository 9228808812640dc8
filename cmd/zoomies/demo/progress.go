package demo

import (
	"fmt"
	"io"
	"strings"
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
func (l *Lines) Job(_ int, name, state, detail string) { l.linef("%-9s %-10s %s", name, state, detail) }

// Plain writes how long a plain run took.
func (l *Lines) Plain(_ int, took time.Duration) {
	l.linef("%-9s %-10s first line after %s", "podman", "run", took.Round(time.Millisecond))
}

// Done does nothing.
func (l *Lines) Done() {}

func (l *Lines) linef(format string, args ...any) {
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

// liveJob is one line: the states the job went through, and a word on the last one.
type liveJob struct {
	bar    *mpb.Bar
	states []string
	detail string
}

// NewLive draws on w.
func NewLive(w io.Writer) *Live {
	return &Live{p: mpb.New(mpb.WithOutput(w), mpb.WithRefreshRate(100*time.Millisecond)), jobs: map[int]*liveJob{}}
}

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
			return fmt.Sprintf("%-10s %-42s %s", name, strings.Join(j.states, " ▸ "), j.detail)
		}
		// Not one of them completes before all have: a line that completes is moved out of the drawing.
		j.bar = l.p.MustAdd(1, nil, mpb.PrependDecorators(decor.Any(text)))
	}
	j.states, j.detail = append(j.states, state), detail
}

// Plain says nothing: the summary does.
func (l *Live) Plain(int, time.Duration) {}

// Done draws every line for the last time.
func (l *Live) Done() {
	l.mu.Lock()
	for _, j := range l.jobs {
		j.bar.SetCurrent(1)
	}
	l.mu.Unlock()
	l.p.Wait()
}

// inOrder drops news of a job that come late: that its runner has started may be heard of after the job runs.
type inOrder struct {
	Progress
	mu sync.Mutex
	at map[int]int // how far each job is
}

var stepOf = map[string]int{"queued": 1, "started": 2, "running": 3} // whatever else is the end

// Job passes a step on unless the job is further already.
func (o *inOrder) Job(n int, name, state, detail string) {
	step, ok := stepOf[state]
	if !ok {
		step = len(stepOf) + 1
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if step > o.at[n] {
		o.at[n] = step
		o.Progress.Job(n, name, state, detail)
	}
}
