package scheduler

import (
	"fmt"
	"time"
)

// Pause says that nothing may be created for a pool until somebody says otherwise. Runners that are there are left alone by it:
// idle ones still take jobs, since GitHub hands those out, and leave at their timeouts as ever; none takes their place.
type Pause struct {
	Queue  bool // the whole queue is paused, not the pool alone
	Since  time.Time
	By     string // who did it; empty when nobody wrote it down
	Reason string
}

// why is a part of a sentence.
func (p *Pause) why(pool string) string {
	what := "pool " + pool
	if p.Queue {
		what = "the queue"
	}
	s := fmt.Sprintf("%s is paused since %s", what, p.Since.UTC().Format("2006-01-02 15:04:05 UTC"))
	if p.By != "" {
		s += " by " + p.By
	}
	if p.Reason != "" {
		s += ": " + p.Reason
	}
	return s
}

func (p *Pause) fix(pool string) string {
	if p.Queue {
		return "Resume the queue. Idle runners take jobs meanwhile, but none is made."
	}
	return fmt.Sprintf("Resume pool %s. Its idle runners take jobs meanwhile, but none is made.", pool)
}
