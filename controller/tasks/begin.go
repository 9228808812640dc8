package tasks

import (
	"context"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

const (
	// runSilence is how long the run of an agent that polls a host's tasks may be silent before it counts as gone: twice the
	// longest poll.
	runSilence = 2 * protocol.MaxWait
	// doubleMemory is how long it is remembered that two runs polled in turn, after the last time one of them was refused.
	doubleMemory = 10 * time.Minute
)

// runs are the runs of one host's agent, as their polls tell. One follows another when an agent is started again, and an
// earlier one never comes back. When one does, two machines (or two processes) speak as the same host, because the agent's
// state was copied: a machine was cloned after it had joined. Were each taken for the other's successor, every poll would put
// back what the other had been given. So the one that was there first keeps the host, and as long as it polls no other is let in.
type runs struct {
	current string    // known to the store
	polled  time.Time // when it last polled
	before  string    // the run that current took over from
	double  time.Time // when a second one was last seen; zero for never
}

// admit judges a poll of a run at now. known is true when it is the current one; otherwise it is to take over. The error wraps
// protocol.ErrConflict.
func (r *runs) admit(run string, now time.Time) (known bool, err error) {
	if run == r.current {
		r.polled = now
		return true, nil
	}
	alive := r.current != "" && now.Sub(r.polled) < runSilence
	if alive && run != r.before && !r.double.IsZero() && now.Sub(r.double) < doubleMemory {
		r.double = now
		return false, fmt.Errorf("%w: another agent polls with the credential of this host. Was this machine cloned, or a copy of its "+
			"agent.json taken, after it had joined? Stop one of the two, delete its agent.json and let it join with a token of its own",
			protocol.ErrConflict)
	}
	return false, nil
}

// take makes run the current one; stored is the run that the store knew before.
func (r *runs) take(run, stored string, now time.Time) (double bool) {
	double = run == r.before && r.current != "" && now.Sub(r.polled) < runSilence
	before := r.current
	if before == "" {
		before = stored
	}
	*r = runs{current: run, polled: now, before: before, double: r.double}
	if double {
		r.double, r.before = now, "" // the one that came second may not come back as the first
	}
	return double
}

// Begin notes which run of a host's agent is about to poll. Tasks that an earlier run was given are offered again at once: what
// became of them, only the host's inventory can tell. So are those that this run says it does not hold (protocol.WithHeld). It
// is protocol.ErrConflict while another run of the same host polls too.
func (q *Queue) Begin(ctx context.Context, hostID, instance string) error {
	if instance == "" {
		return nil // an agent too old to say
	}
	q.mu.Lock()
	known, err := q.line(hostID).runs.admit(instance, q.now())
	q.mu.Unlock()
	if err != nil {
		return err
	}
	if !known {
		err = q.change(ctx, hostID, instance)
	}
	if err == nil {
		err = q.releaseLost(ctx, hostID)
	}
	if err != nil {
		return fmt.Errorf("cannot take in the agent of host %s: %w", hostID, err)
	}
	return nil
}

// Speaks says whether a run of a host's agent may say what the host holds and what became of it: the one whose polls are answered
// does. Before any has polled, as after a restart of the controller, nobody is known to be an impostor.
func (q *Queue) Speaks(hostID, instance string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	current := q.line(hostID).runs.current
	return instance == "" || current == "" || current == instance
}

// change makes instance the run of the host's agent.
func (q *Queue) change(ctx context.Context, hostID, instance string) error {
	b, err := q.store.BeginInstance(ctx, hostID, instance, Offers)
	if err != nil {
		return err
	}
	q.released(hostID, "the agent that had it is gone", b.Released)
	q.mu.Lock()
	double := q.line(hostID).runs.take(instance, b.Previous, q.now())
	q.mu.Unlock()
	if double {
		q.log.Error("two agents poll with the credential of one host; the one that came second is refused from now on: was the machine "+
			"cloned after it had joined? Delete agent.json on the clone and let it join with a token of its own", "host", hostID)
	}
	return nil
}

// releaseLost takes back tasks whose delivery has not arrived, going by what the agent that is about to poll says it holds.
func (q *Queue) releaseLost(ctx context.Context, hostID string) error {
	held, said := protocol.HeldOf(ctx)
	if !said {
		return nil
	}
	// The poll before is over, since the agent makes one at a time: it must lease nothing from here on. What it may be leasing
	// now, nobody waits for, and the lock waits until that is written.
	l, _ := q.enter(hostID)
	l.leasing.Lock()
	defer l.leasing.Unlock()
	lost, err := q.store.ReleaseLost(ctx, hostID, held, Offers)
	q.released(hostID, "its delivery was lost", lost)
	return err
}

// released says what became of tasks that were in nobody's hands, and has the reaper give up those whose offers are spent.
func (q *Queue) released(hostID, why string, r store.Released) {
	for _, t := range r.Requeued {
		q.log.Warn("offering a task again: "+why, "task", t.ID, "kind", t.Kind, "host", hostID, "runner", t.RunnerID, "offers", t.Attempt)
	}
	if len(r.Spent) > 0 {
		q.leased.Set()
	}
}
