package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/problems"
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
	// recheckPause separates two looks at an installation's silent jobs. With recheckBatch it bounds what they cost: 2,400
	// of GitHub's 5,000 calls an hour at most.
	recheckPause = 30 * time.Second
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
		c.problemsOfThere(problems.OfInstallation, func(id string) bool {
			return slices.ContainsFunc(ins, func(in store.Installation) bool { return in.ID == id })
		})
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
	rechecked  time.Time            // the last look at silent jobs
	asked      map[string]time.Time // silent jobs that GitHub was asked about in vain
	missing    map[string]int       // of those, how often GitHub said that there is no such job
}

func (c *Controller) pollInstallation(ctx context.Context, in store.Installation, st *pollState) {
	if c.settings().PollFallback {
		c.sweep(ctx, in, st)
	}
	if err := c.recheck(ctx, in, st); err != nil && ctx.Err() == nil && !errors.Is(err, errHeld) {
		c.log.Warn("cannot ask GitHub about silent jobs", "installation", in.Name, "err", err)
	}
}

func (c *Controller) sweep(ctx context.Context, in store.Installation, st *pollState) {
	now := c.now()
	d := github.ShouldPoll(now, github.PollFacts{
		LastDeliveryAt: in.LastDeliveryAt, HoldUntil: in.HoldUntil, LastPollAt: st.last, LastFullAt: st.full,
	}, c.settings().PollInterval)
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
	news := c.learnJobs(ctx, in, jobs)
	c.judgePolling(in, news, now)
	if err != nil {
		if err := c.githubErr(ctx, in, err); ctx.Err() == nil {
			c.log.Warn("the poll of an installation stopped", "installation", in.Name, "err", err)
		}
		return
	}
	c.judgeGitHub(in, nil)
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
		c.problems.Clear(problems.PollOnly, in.ID)
		return
	case news == 0 || silent < pollOnlyAfter:
		return
	}
	c.problems.Raise(in.ID, problems.Problem{
		Code:  problems.PollOnly,
		Title: "Installation " + in.Name + " is served by polling alone",
		Why:   "A poll found jobs that no webhook told of; none has arrived for " + now.Sub(since).Round(time.Minute).String() + ". Jobs still run, up to a poll interval later.",
		Fix:   "Check the App's webhook address and secret, and whether GitHub can reach this controller.",
	})
}

// learnJobs takes in what a poll found, and says how much of it was news. What is known already, and was confirmed lately, costs
// no write: a poll of a thousand queued jobs would hold up the webhooks.
func (c *Controller) learnJobs(ctx context.Context, in store.Installation, jobs []github.JobState) (news int) {
	if len(jobs) == 0 {
		return 0
	}
	// Of every installation at this GitHub: another App of the same account may have told of them first.
	rows, err := c.store.Jobs(ctx, store.JobFilter{
		States: []store.JobState{store.JobWaiting, store.JobQueued, store.JobInProgress}, GitHubOf: in.ID,
	})
	if err != nil && ctx.Err() == nil {
		c.log.Error("cannot read the known jobs of an installation", "installation", in.Name, "err", err)
	}
	known := make(map[int64]store.Job, len(rows))
	for _, j := range rows {
		known[j.GitHubID] = j
	}
	fresh := c.now().Add(-min(c.settings().JobRecheck, waitingRecheck) / 2)
	for _, s := range jobs {
		if j, ok := known[s.GitHubID]; ok && j.State == jobState(s.Status) && j.RunnerName == s.RunnerName && j.CheckedAt.After(fresh) {
			continue
		}
		changed, err := c.learnJob(ctx, in.ID, s)
		if err != nil && ctx.Err() == nil {
			c.log.Error("cannot record a polled job", "installation", in.Name, "err", err)
		}
		if changed {
			news++
		}
	}
	return news
}

// recheck asks about jobs that have not ended and that nothing was heard of for long: the delivery that ended them may be
// lost. Those unheard of for longest come first, and one that cannot be asked about keeps no other waiting.
func (c *Controller) recheck(ctx context.Context, in store.Installation, st *pollState) error {
	now := c.now()
	if now.Sub(st.rechecked) < min(recheckPause, c.settings().JobRecheck) {
		return nil
	}
	silent, err := c.silentJobs(ctx, in, st, now)
	if err != nil || len(silent) == 0 {
		return err
	}
	api, in, err := c.github(ctx, in.ID)
	if err != nil {
		return err
	}
	st.rechecked = now
	var errs []error
	for _, j := range silent {
		s, err := api.Job(ctx, j.Repository, j.GitHubID)
		if errors.Is(err, github.ErrNotFound) && c.vanished(ctx, j, st) {
			s, err = github.JobState{GitHubID: j.GitHubID, RunID: j.RunID, Repository: j.Repository, Status: "completed", Conclusion: "deleted", CompletedAt: now}, nil
		}
		if err == nil {
			delete(st.missing, j.ID)
			_, err = c.learnJob(ctx, in.ID, s)
		} else if err = c.githubErr(ctx, in, err); errors.Is(err, errHeld) {
			return err
		}
		if err != nil {
			st.asked[j.ID] = now
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// vanishedAfter is how often GitHub must say that a job does not exist, with a recheck between, until that is believed.
const vanishedAfter = 3

// vanished says whether a job that GitHub does not find was deleted with its run. GitHub answers the same when it merely hides a
// repository for a while, so it is asked again, and a job that a live runner of ours executes exists whatever it says.
func (c *Controller) vanished(ctx context.Context, j store.Job, st *pollState) bool {
	if j.RunnerID != "" {
		if r, err := c.store.Runner(ctx, j.RunnerID); err != nil || r.State.Live() {
			return false
		}
	}
	if st.missing == nil {
		st.missing = map[string]int{}
	}
	st.missing[j.ID]++
	return st.missing[j.ID] >= vanishedAfter
}

func (c *Controller) silentJobs(ctx context.Context, in store.Installation, st *pollState, now time.Time) ([]store.Job, error) {
	silent, err := c.store.Jobs(ctx, store.JobFilter{
		States: []store.JobState{store.JobQueued, store.JobInProgress}, Installation: in.ID, CheckedBefore: now.Add(-c.settings().JobRecheck),
	})
	if err != nil {
		return nil, err
	}
	gated, err := c.store.Jobs(ctx, store.JobFilter{
		States: []store.JobState{store.JobWaiting}, Installation: in.ID, CheckedBefore: now.Add(-waitingRecheck),
	})
	if err != nil {
		return nil, err
	}
	if st.asked == nil {
		st.asked = map[string]time.Time{}
	}
	maps.DeleteFunc(st.asked, func(_ string, at time.Time) bool { return now.Sub(at) >= c.settings().JobRecheck })
	silent = slices.DeleteFunc(append(silent, gated...), func(j store.Job) bool { _, asked := st.asked[j.ID]; return asked })
	slices.SortFunc(silent, func(a, b store.Job) int { return a.CheckedAt.Compare(b.CheckedAt) })
	return silent[:min(len(silent), recheckBatch)], nil
}
