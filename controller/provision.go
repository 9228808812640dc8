package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/metrics"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

const createKind = protocol.TaskCreate

// mintTries is how often a registration is asked for before its runner is failed. The scheduler's own
// backoff takes over from there.
const mintTries = 4

// provisionLoop finishes every runner whose row exists and whose create task does not: the new ones, and
// those that a killed controller left between the two.
func (c *Controller) provisionLoop(ctx context.Context) {
	everyOf(ctx, func() time.Duration { return c.settings().Tick }, c.provision.C(), func(ctx context.Context) {
		rows, err := c.store.RunnersWithoutCreate(ctx)
		if err != nil {
			if ctx.Err() == nil {
				c.log.Error("cannot read the runners that wait for a registration", "err", err)
			}
			return
		}
		for _, r := range rows {
			c.spawn(ctx, c.minting, r.InstallationID, r.ID, func(ctx context.Context) error {
				c.mint(ctx, r)
				return nil
			})
		}
	})
}

// mint gets a runner its registration and writes its create task.
func (c *Controller) mint(ctx context.Context, r store.Runner) {
	tries := 0
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		tries++
		err := c.mintOnce(ctx, r)
		if err != nil && !transient(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxTries(mintTries))
	switch {
	case err == nil, ctx.Err() != nil:
	case errors.Is(err, errHeld):
		// A row that waits for GitHub would hold a host's slot that another installation's jobs could have, and run into
		// the provision timeout. It has nothing yet that would be lost: the pass after the hold makes another.
		if _, _, err := c.transition(ctx, r.ID, store.RunnerRemoved, store.Change{Message: err.Error()}); err != nil && !errors.Is(err, store.ErrTransition) {
			c.log.Error("cannot withdraw a runner", "runner", r.ID, "err", err)
		}
	default:
		why := fmt.Sprintf("no registration was had in %d tries: %v", tries, err)
		if err := c.failRunner(ctx, r.ID, why); err != nil && !errors.Is(err, store.ErrTransition) {
			c.log.Error("cannot fail a runner", "runner", r.ID, "err", err)
		}
	}
}

// transient says whether a call failed in a way that the next one may not: its answer was lost, or there was none.
func transient(err error) bool {
	var call *github.CallError
	return errors.Is(err, github.ErrUnknown) || errors.As(err, &call) && len(call.Unwrap()) == 0 && (call.Status == 0 || call.Status >= 500)
}

// mintOnce asks GitHub for a registration under the name chosen in advance. When that name is registered
// already, an earlier answer was lost (or its controller was killed): that registration's secret cannot be had
// again, so it is deleted and the name is asked for once more.
func (c *Controller) mintOnce(ctx context.Context, r store.Runner) error {
	// The list that named this runner may be older than the end of an earlier mint of it. A second one would find the name
	// taken, and delete the registration of a runner that lives.
	if needed, err := c.needsMint(ctx, r.ID); err != nil || !needed {
		return err
	}
	api, in, err := c.github(ctx, r.InstallationID)
	if err != nil {
		return err
	}
	p, err := c.store.Pool(ctx, r.PoolID)
	if err != nil {
		return fmt.Errorf("cannot read pool %s: %w", r.PoolID, err)
	}
	sc := scope(in, r.Repository)
	task := c.createTask(r, p)
	var id int64
	if p.Ephemeral {
		jit, err := c.mintJIT(ctx, api, sc, p, r)
		if err != nil {
			return c.githubErr(ctx, in, err)
		}
		id, task.JITConfig = jit.RunnerID, string(jit.Config.Reveal())
	} else {
		token, _, err := api.RegistrationToken(ctx, sc)
		if err != nil {
			return c.githubErr(ctx, in, err)
		}
		task.Registration = &protocol.Registration{URL: registrationURL(in, sc), Token: string(token.Reveal()), Labels: p.Labels}
	}
	c.judgeGitHub(in, nil)
	t, err := c.queue.EnqueueCreate(ctx, r, id, task)
	if errors.Is(err, store.ErrConflict) {
		// Withdrawn or failed while GitHub was answering: nobody will ever start it.
		if id == 0 {
			return nil
		}
		return c.githubErr(ctx, in, api.DeleteRunner(ctx, sc, id))
	}
	if err != nil {
		return fmt.Errorf("cannot write the create task of runner %s: %w", r.ID, err)
	}
	if r.DemandJobID != "" {
		if j, err := c.store.Job(ctx, r.DemandJobID); err == nil {
			c.metrics.Observe(metrics.Stage, t.CreatedAt.Sub(j.SeenAt), metrics.StageQueuedToTask)
		}
	}
	return nil
}

func (c *Controller) needsMint(ctx context.Context, id string) (bool, error) {
	r, err := c.store.Runner(ctx, id)
	if err != nil || r.State != store.RunnerProvisioning {
		return false, err
	}
	ts, err := c.store.Tasks(ctx, id)
	return !slices.ContainsFunc(ts, func(t store.Task) bool { return t.Kind == string(createKind) }), err
}

func (c *Controller) mintJIT(ctx context.Context, api github.API, sc github.Scope, p store.Pool, r store.Runner) (github.JIT, error) {
	req := github.JITRequest{Name: r.Name, Labels: p.Labels, GroupID: p.RunnerGroupID}
	jit, err := api.MintJIT(ctx, sc, req)
	if !errors.Is(err, github.ErrNameTaken) {
		return jit, err
	}
	old, err := api.FindRunner(ctx, sc, r.Name)
	switch {
	case errors.Is(err, github.ErrNotFound): // gone again, or the list lags behind
	case err != nil:
		return github.JIT{}, err
	default:
		if err := api.DeleteRunner(ctx, sc, old.ID); err != nil {
			return github.JIT{}, err
		}
	}
	jit, err = api.MintJIT(ctx, sc, req)
	if errors.Is(err, github.ErrNameTaken) {
		return jit, fmt.Errorf("%w: the name %s is taken and its registration cannot be found", github.ErrUnknown, r.Name)
	}
	return jit, err
}

// githubErr turns a refusal that asks us to wait into errHeld, and counts every other one.
func (c *Controller) githubErr(ctx context.Context, in store.Installation, err error) error {
	if c.noteGitHub(ctx, in, err) {
		return fmt.Errorf("%w: %w", errHeld, err)
	}
	c.judgeGitHub(in, err)
	return err
}

// judgeGitHub names it when GitHub refuses an installation, or its key makes no client; the next answer clears it.
func (c *Controller) judgeGitHub(in store.Installation, err error) {
	refused := errors.Is(err, github.ErrUnauthorized) || errors.Is(err, github.ErrUnusable)
	if err != nil && !refused {
		return // it says nothing of the installation
	}
	c.problems.Is(problems.GitHubRefused, in.ID, refused, func() problems.Problem {
		return problems.Problem{
			Code:  problems.GitHubRefused,
			Title: "GitHub refuses installation " + in.Name + ", or its key cannot be used",
			Why:   err.Error() + ". No runner can be registered there meanwhile.",
			Fix:   problems.GitHubRefused.Kind().Fix,
		}
	})
}

func (c *Controller) createTask(r store.Runner, p store.Pool) protocol.CreateRunner {
	env := maps.Clone(c.settings().RunnerEnv)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, p.Env)
	t := protocol.CreateRunner{
		Name: r.Name, PoolID: p.ID, Pool: p.Name, Backend: p.Backend, Image: r.Image, PullPolicy: p.PullPolicy, Env: env,
		CPUs: r.CPUs, MemoryMB: r.MemoryMB, PidsLimit: p.PidsLimit, Network: p.Network, ReadOnly: p.ReadOnly,
		Daemon: p.Daemon, DaemonImage: daemonImage(p), Timeout: protocol.SecondsOf(c.settings().CreateTimeout),
	}
	if p.Daemon != "" {
		t.DaemonWait = protocol.SecondsOf(c.settings().DaemonWait)
	}
	return t
}

// registrationURL is the page of the organisation or repository that config.sh registers at.
func registrationURL(in store.Installation, sc github.Scope) string {
	web := "https://github.com"
	if in.BaseURL != "" {
		web = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(in.BaseURL, "/"), "/api/v3"), "/")
	}
	if sc.Repository != "" {
		return web + "/" + sc.Repository
	}
	return web + "/" + sc.Org
}
