package controller

import (
	"context"
	"errors"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

const (
	// recheckBatch is how many silent jobs one look asks GitHub about.
	recheckBatch = 20
	// waitingRecheck is how long a job behind a deployment gate may go unheard of: its gate may have opened in a delivery that
	// came before the one that closed it.
	waitingRecheck = time.Minute
	// pollTick is the pace at which it is decided whether an installation is due.
	pollTick = 5 * time.Second
	// pollOnlyAfter is how long webhooks may be silent, while polls find jobs, before that is a problem to name.
	pollOnlyAfter = 15 * time.Minute
)

// pollLoop asks GitHub what its webhooks did not say: jobs whose delivery was lost, and what became of jobs that have
// been silent for long.
func (c *Controller) pollLoop(ctx context.Context) {
	polls := map[string]*pollState{}
	every(ctx, pollTick, c.poll.C(), func(ctx context.Context) {
		ins, err := c.store.Installations(ctx)
		if err != nil {
			if ctx.Err() == nil {
				c.log.Error("cannot read installations for the poll", "err", err)
			}
			return
		}
		for _, in := range ins {
			st := polls[in.ID]
			if st == nil {
				st = &pollState{}
				polls[in.ID] = st
			}
			// Each installation on its own: one that GitHub answers slowly never delays another.
			c.spawn(ctx, c.polling, in.ID, in.ID, func(ctx context.Context) error {
				c.pollInstallation(ctx, in, st)
				return nil
			})
		}
	})
}

// pollState is what is remembered of one installation's polls. Only its own poll touches it.
type pollState struct {
	last, full time.Time
}

func (c *Controller) pollInstallation(ctx context.Context, in store.Installation, st *pollState) {
	if c.set.PollFallback {
		c.sweep(ctx, in, st)
	}
	if err := c.recheck(ctx, in); err != nil && ctx.Err() == nil && !errors.Is(err, errHeld) {
		c.log.Warn("cannot ask GitHub about silent jobs", "installation", in.Name, "err", err)
	}
}

func (c *Controller) sweep(ctx context.Context, in store.Installation, st *pollState) {
	now := c.now()
	d := github.ShouldPoll(now, github.PollFacts{
		LastDeliveryAt: in.LastDeliveryAt, HoldUntil: in.HoldUntil, LastPollAt: st.last, LastFullAt: st.full,
	}, c.set.PollInterval)
	if d.Depth == github.PollNone {
		return
	}
	api, in, err := c.github(ctx, in.ID)
	if err != nil {
		if !errors.Is(err, errHeld) && ctx.Err() == nil {
			c.log.Warn("cannot poll an installation", "installation", in.Name, "err", err)
		}
		return
	}
	st.last = now
	jobs, err := github.Sweep(ctx, api, d.Depth)
	news := 0
	for _, j := range jobs {
		changed, lerr := c.learnJob(ctx, in.ID, j)
		if lerr != nil && ctx.Err() == nil {
			c.log.Error("cannot record a polled job", "installation", in.Name, "err", lerr)
		}
		if changed {
			news++
		}
	}
	c.judgePolling(in, news, now)
	if err != nil {
		if err := c.githubErr(ctx, in, err); ctx.Err() == nil {
			c.log.Warn("the poll of an installation stopped", "installation", in.Name, "err", err)
		}
		return
	}
	if d.Depth == github.PollFull {
		st.full = now
	}
}

// judgePolling names it when polls find what no webhook said: a fleet that stopped receiving them looks exactly like a quiet one.
func (c *Controller) judgePolling(in store.Installation, news int, now time.Time) {
	since := in.LastDeliveryAt
	if since.IsZero() {
		since = c.started
	}
	switch silent := now.Sub(since); {
	case silent < pollOnlyAfter && !in.LastDeliveryAt.IsZero():
		c.problems.clear(ProblemPollOnly, in.ID)
		return
	case news == 0 || silent < pollOnlyAfter:
		return
	}
	c.problems.raise(in.ID, Problem{
		Code:  ProblemPollOnly,
		Title: "Installation " + in.Name + " is served by polling alone",
		Why:   "A poll found jobs that no webhook told of; none has arrived for " + now.Sub(since).Round(time.Minute).String() + ". Jobs still run, up to a poll interval later.",
		Fix:   "Check the App's webhook address and secret, and whether GitHub can reach this controller.",
	})
}

// recheck asks about jobs that have not ended and that nothing was heard of for long: the delivery that ended them may be lost.
func (c *Controller) recheck(ctx context.Context, in store.Installation) error {
	now := c.now()
	silent, err := c.store.Jobs(ctx, store.JobFilter{
		States: []store.JobState{store.JobQueued, store.JobInProgress}, Installation: in.ID,
		CheckedBefore: now.Add(-c.set.JobRecheck), Limit: recheckBatch,
	})
	if err != nil {
		return err
	}
	gated, err := c.store.Jobs(ctx, store.JobFilter{
		States: []store.JobState{store.JobWaiting}, Installation: in.ID, CheckedBefore: now.Add(-waitingRecheck), Limit: recheckBatch,
	})
	if err != nil || len(silent)+len(gated) == 0 {
		return err
	}
	api, in, err := c.github(ctx, in.ID)
	if err != nil {
		return err
	}
	for _, j := range append(silent, gated...) {
		s, err := api.Job(ctx, j.Repository, j.GitHubID)
		if errors.Is(err, github.ErrNotFound) {
			// Its run was deleted: nothing will ever be heard of it again.
			s, err = github.JobState{GitHubID: j.GitHubID, RunID: j.RunID, Repository: j.Repository, Status: "completed", Conclusion: "deleted", CompletedAt: now}, nil
		}
		if err != nil {
			return c.githubErr(ctx, in, err)
		}
		if _, err := c.learnJob(ctx, in.ID, s); err != nil {
			return err
		}
	}
	return nil
}
