package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/metrics"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// goneGrace is how long a runner may be missing from GitHub's list, which lags behind, before it is taken as deregistered.
const goneGrace = 2 * time.Minute

// reapLoop compares registrations with rows, a minute after start and every ten minutes after that.
func (c *Controller) reapLoop(ctx context.Context) {
	first := time.NewTimer(ReapDelay)
	defer first.Stop()
	select {
	case <-first.C:
	case <-ctx.Done():
		return
	}
	c.reap(ctx)
	every(ctx, ReapInterval, nil, c.reap)
}

// reap compares every installation on its own: one that GitHub answers slowly delays no other.
func (c *Controller) reap(ctx context.Context) {
	ins, err := c.store.Installations(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.log.Error("cannot read installations for the registration reap", "err", err)
		}
		return
	}
	for _, in := range ins {
		c.spawnReap(ctx, in)
	}
}

func (c *Controller) spawnReap(ctx context.Context, in store.Installation) {
	c.spawn(ctx, c.reaping, in.ID, in.ID, func(ctx context.Context) error {
		err := c.reapInstallation(ctx, in)
		if err != nil && !errors.Is(err, errHeld) && ctx.Err() == nil {
			c.log.Warn("the registration reap of an installation stopped", "installation", in.Name, "err", err)
		}
		return err
	})
}

// reapInstallation deletes registrations of this fleet that no live runner explains and that are not busy, and takes
// runners out of service whose registration GitHub has deleted. It stops at the first refusal: every further call would be
// refused too. A repository that is gone is none: only its own registrations went with it.
func (c *Controller) reapInstallation(ctx context.Context, in store.Installation) error {
	api, in, err := c.github(ctx, in.ID)
	if errors.Is(err, errHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	scopes, err := c.scopes(ctx, in)
	if err != nil {
		return err
	}
	for _, sc := range scopes {
		asked := c.now()
		regs, err := api.ListRunners(ctx, sc)
		if errors.Is(err, github.ErrNotFound) {
			c.log.Debug("no registrations to compare: the repository is gone, or this App does not see it any more", "installation", in.Name, "repository", sc.Repository)
			continue
		}
		if err != nil {
			return c.githubErr(ctx, in, err)
		}
		// Every live runner explains its registration: another App of the same account sees the registrations of this one's pools.
		rows, err := c.store.Runners(ctx, store.RunnerFilter{Live: true})
		if err != nil {
			return err
		}
		if err := c.reapOrphans(ctx, api, in, sc, regs, rows); err != nil {
			return err
		}
		rows = slices.DeleteFunc(rows, func(r store.Runner) bool { return r.InstallationID != in.ID })
		if err := c.noteRegistrations(ctx, in, sc, regs, rows, asked); err != nil {
			return err
		}
	}
	if len(scopes) > 0 { // it was asked, and it answered
		c.judgeGitHub(in, nil)
	}
	return nil
}

// scopes are the places where an installation's pools register their runners, and where the runners of pools that are gone did.
func (c *Controller) scopes(ctx context.Context, in store.Installation) ([]github.Scope, error) {
	pools, err := c.store.Pools(ctx)
	if err != nil {
		return nil, err
	}
	at, err := c.store.RunnerRepositories(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	for _, p := range pools {
		if p.InstallationID == in.ID {
			at = append(at, p.Repository)
		}
	}
	slices.Sort(at)
	var out []github.Scope
	for _, repository := range slices.Compact(at) {
		out = append(out, scope(in, repository))
	}
	return out, nil
}

func (c *Controller) reapOrphans(ctx context.Context, api github.API, in store.Installation, sc github.Scope, regs []github.Registration, rows []store.Runner) error {
	explained := map[string]bool{}
	for _, r := range rows {
		explained[r.Name] = true
	}
	for _, reg := range regs {
		if !strings.HasPrefix(reg.Name, namePrefix(c.fleet)) || reg.Busy || explained[reg.Name] {
			continue
		}
		err := api.DeleteRunner(ctx, sc, reg.ID)
		if errors.Is(err, github.ErrRunnerBusy) {
			continue
		}
		if err != nil {
			return c.githubErr(ctx, in, fmt.Errorf("cannot delete the orphaned registration %s: %w", reg.Name, err))
		}
		c.log.Info("deleted an orphaned registration", "installation", in.Name, "name", reg.Name, "registration", reg.ID)
		c.metrics.Inc(metrics.OrphansReaped)
	}
	return nil
}

// noteRegistrations brings rows in line with the list: an idle runner that GitHub calls busy is busy (its job may be of a
// repository whose webhooks we do not get), and one that GitHub has deleted can never get a job.
func (c *Controller) noteRegistrations(ctx context.Context, in store.Installation, sc github.Scope, regs []github.Registration, rows []store.Runner, asked time.Time) error {
	byName := map[string]github.Registration{}
	for _, reg := range regs {
		byName[reg.Name] = reg
	}
	for _, r := range rows {
		if scope(in, r.Repository) != sc {
			continue
		}
		reg, listed := byName[r.Name]
		if err := c.noteRegistration(ctx, r, reg, listed, asked); err != nil && !errors.Is(err, store.ErrTransition) {
			return err
		}
	}
	return nil
}

func (c *Controller) noteRegistration(ctx context.Context, r store.Runner, reg github.Registration, listed bool, asked time.Time) (err error) {
	settled := asked.Sub(r.StateAt) > goneGrace // the list lags behind
	switch {
	case r.State == store.RunnerIdle && listed && reg.Busy:
		_, _, err = c.transition(ctx, r.ID, store.RunnerBusy, store.Change{Message: "GitHub says that it runs a job"})
	case r.State == store.RunnerIdle && !listed && settled:
		// A list is no proof: its pages shift. Retiring deletes the registration by its number, which GitHub refuses for one
		// that is busy and answers alike for one that is gone.
		c.log.Info("retiring a runner that GitHub does not list", "runner", r.ID)
		c.spawn(ctx, c.retiring, r.InstallationID, r.ID, func(ctx context.Context) error { return c.retire(ctx, r.ID, "GitHub has deleted its registration") })
	case r.State == store.RunnerIdle && listed && reg.Status == github.StatusOffline && settled:
		err = c.failRunner(ctx, r.ID, "its workload runs, but GitHub has not seen it online: can containers on its host reach GitHub?")
	case r.State == store.RunnerBusy && r.JobID == "" && listed && !reg.Busy && settled:
		// It was busy by GitHub's word alone, with a job that was taken back before it began.
		_, _, err = c.transition(ctx, r.ID, store.RunnerIdle, store.Change{Message: "GitHub says that it waits for a job"})
	}
	return err
}
