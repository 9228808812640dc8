package controller

import (
	"fmt"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// sayer remembers what was last said of each pool and job, so that a pass says only what is new. Only the reconcile loop
// uses it.
type sayer struct{ pools, jobs map[string]string }

// say tells the log and the problems why pools cannot have what they want, and which jobs no pool can take.
func (c *Controller) say(snap scheduler.Snapshot, plan scheduler.Plan) {
	names := map[string]string{}
	for _, p := range snap.Pools {
		names[p.ID] = p.Name
	}
	pools := map[string]string{}
	for _, d := range plan.Pools {
		b := d.Blocked
		if b == nil {
			c.problems.Clear(problems.PoolBlocked, d.PoolID)
			continue
		}
		why := blockedSentence(*b)
		pools[d.PoolID] = why
		if c.said.pools[d.PoolID] != why {
			c.log.Info("a pool cannot have the runners it wants", "pool", names[d.PoolID], "wanted", b.Wanted, "why", why, "fix", b.Fix)
		}
		if b.AtCapacity || b.Paused || !b.Until.IsZero() { // normal, or wanted so, and over by itself or by their word
			c.problems.Clear(problems.PoolBlocked, d.PoolID)
			continue
		}
		c.problems.Raise(d.PoolID, problems.Problem{
			Code:  problems.PoolBlocked,
			Title: fmt.Sprintf("Pool %s wants %d more runners and no host can take them", names[d.PoolID], b.Wanted),
			Why:   why,
			Fix:   b.Fix,
		})
	}
	for id := range c.said.pools {
		if pools[id] == "" {
			c.problems.Clear(problems.PoolBlocked, id)
		}
	}
	c.said.pools = pools
	c.sayUnmatched(plan.Unmatched)
	c.sayStuck(snap, names)
	c.problemsOfThere(problems.OfPool, func(id string) bool { _, there := names[id]; return there })
}

// sayStuck names pools whose runners take long to come online, before the provision timeout gives them up.
func (c *Controller) sayStuck(snap scheduler.Snapshot, names map[string]string) {
	stuck := map[string]int{}
	after := snap.Tunables.ProvisionTimeout / 2
	for _, r := range snap.Runners {
		starting := r.State == string(store.RunnerProvisioning) || r.State == string(store.RunnerRegistering)
		if starting && snap.Now.Sub(r.CreatedAt) >= after {
			stuck[r.PoolID]++
		}
	}
	for id, name := range names {
		if stuck[id] == 0 {
			c.problems.Clear(problems.NotProgressing, id)
			continue
		}
		c.problems.Raise(id, problems.Problem{
			Code:  problems.NotProgressing,
			Title: fmt.Sprintf("%d runners of pool %s have not come online for %s", stuck[id], name, after),
			Why:   fmt.Sprintf("A runner that is not online after %s is failed and replaced.", snap.Tunables.ProvisionTimeout),
			Fix:   "Look at the runners' messages and at their host: is the image large and not there yet, does its daemon start, can containers reach GitHub?",
		})
	}
}

func blockedSentence(b scheduler.Blocked) string {
	switch {
	case b.Paused:
		return "it is paused"
	case len(b.Causes) == 0 && !b.Until.IsZero():
		return "it waits until " + b.Until.UTC().Format(time.TimeOnly) + " UTC"
	case len(b.Causes) == 0:
		return "there is no host"
	}
	var parts []string
	for _, cause := range b.Causes {
		parts = append(parts, fmt.Sprintf("%d × %s", cause.Hosts, cause.What))
	}
	return "hosts: " + strings.Join(parts, ", ")
}

// sayUnmatched speaks of jobs that wait for a pool that nobody has made. Jobs for GitHub's own machines are none of ours.
func (c *Controller) sayUnmatched(us []scheduler.Unmatched) {
	jobs := map[string]string{}
	for _, u := range us {
		if u.Hosted {
			continue
		}
		jobs[u.JobID] = u.Reason
		if c.said.jobs[u.JobID] != u.Reason {
			c.log.Info("no pool can take a job", "job", u.JobID, "why", u.Reason)
		}
	}
	c.said.jobs = jobs
	if len(jobs) == 0 {
		c.problems.Clear(problems.Unmatched, "")
		return
	}
	example := ""
	for _, u := range us {
		if !u.Hosted {
			example = u.Reason
			break
		}
	}
	c.problems.Raise("", problems.Problem{
		Code:  problems.Unmatched,
		Title: fmt.Sprintf("%d queued jobs ask for labels that no pool offers", len(jobs)),
		Why:   "The first of them: " + example + ".",
		Fix:   "Make a pool with those labels, or change the workflow's runs-on.",
	})
}
