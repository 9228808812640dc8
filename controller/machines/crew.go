package machines

import (
	"context"
	"sync"
	"time"
)

// job is one thing to work on: a machine, or a provider's sweep or image.
type job struct {
	id       string // done once at a time
	state    string // the wait that it asked for counts as long as this is the same
	group    string // the provider
	do       func(context.Context) (wait time.Duration, changed bool, err error)
	priority bool // it does not wait until its last wait is over
}

// crew works on jobs in the background: each once at a time, a bounded number at once for each provider, and none again before the wait
// that it asked for is over.
type crew struct {
	now  func() time.Time
	work sync.WaitGroup

	mu    sync.Mutex
	busy  map[string]bool
	later map[string]pause
	slots map[string]chan struct{}
}

type pause struct {
	at    time.Time
	state string
	wait  time.Duration // after an error; 0 when there was none
}

func newCrew(now func() time.Time) *crew {
	return &crew{now: now, busy: map[string]bool{}, later: map[string]pause{}, slots: map[string]chan struct{}{}}
}

// begin says whether the caller is the one to work on a job now, and otherwise when it is due; zero when another works on it.
func (k *crew) begin(j job) (time.Time, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.busy[j.id] {
		return time.Time{}, false
	}
	if p := k.later[j.id]; k.now().Before(p.at) && p.state == j.state && !j.priority {
		return p.at, false
	}
	k.busy[j.id] = true
	return time.Time{}, true
}

// end notes how long a job is to wait.
func (k *crew) end(j job, wait time.Duration, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.busy, j.id)
	now := k.now()
	p := pause{at: now.Add(wait), state: j.state}
	if err != nil {
		p.wait = min(max(retryWait, 2*k.later[j.id].wait), maxRetryWait)
		p.at = now.Add(p.wait)
	}
	k.later[j.id] = p
	for other, p := range k.later { // of what nobody asks for any more
		if now.Sub(p.at) > 2*SweepInterval {
			delete(k.later, other)
		}
	}
}

func (k *crew) slot(group string) chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	s, ok := k.slots[group]
	if !ok {
		s = make(chan struct{}, perProvider)
		k.slots[group] = s
	}
	return s
}

// spawn works on a job in the background. It returns when the job is due, if that is later.
func (k *crew) spawn(ctx context.Context, j job, done func(changed bool)) time.Time {
	at, mine := k.begin(j)
	if !mine {
		return at
	}
	slot := k.slot(j.group)
	k.work.Go(func() {
		select {
		case slot <- struct{}{}:
			defer func() { <-slot }()
		case <-ctx.Done():
			k.end(j, 0, nil)
			return
		}
		wait, changed, err := j.do(ctx)
		k.end(j, wait, err)
		if ctx.Err() == nil {
			done(changed)
		}
	})
	return time.Time{}
}

// run works on a job here and now, if it is due. It says whether it was.
func (k *crew) run(ctx context.Context, j job) (bool, error) {
	if _, mine := k.begin(j); !mine {
		return false, nil
	}
	wait, _, err := j.do(ctx)
	k.end(j, wait, err)
	return true, err
}
