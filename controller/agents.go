package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/relay"
	"github.com/zoomies-fleet/zoomies/controller/scheduler"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Agents is the controller as its agents see it. The embedded agent calls it in-process; the HTTP server puts it
// behind the agent routes.
func (c *Controller) Agents() protocol.Controller { return agents{c} }

type agents struct{ c *Controller }

// errStoodDown keeps tasks from agents that still speak to a controller which has lost its database.
var errStoodDown = errors.New("this controller has stood down: another one has taken its database")

// maxPoll bounds a long poll, whatever the agent asks for.
const maxPoll = time.Minute

func (a agents) host(ctx context.Context, cred protocol.Credential) (store.Host, error) {
	if a.c.stoodDown.Load() {
		return store.Host{}, errStoodDown
	}
	h, err := a.c.store.HostByToken(ctx, cred.HostID, auth.HashToken(cred.Token))
	if errors.Is(err, store.ErrNotFound) {
		return h, protocol.ErrUnauthorized
	}
	return h, err
}

// NewJoinToken makes a single-use join token and returns it; only its hash is kept. Bound to a host name it admits only a host
// of that name, which takes the name over from the host that has it, whose runners then count as lost. With no name it admits
// one host under any name that is free.
func (c *Controller) NewJoinToken(ctx context.Context, hostName string, embedded bool, ttl time.Duration) (string, error) {
	token := auth.NewToken(auth.PrefixJoin)
	_, err := c.store.CreateJoinToken(ctx, store.JoinToken{Hash: auth.HashToken(token), HostName: hostName, Embedded: embedded, ExpiresAt: c.now().Add(ttl)})
	if err != nil {
		return "", fmt.Errorf("cannot write a join token: %w", err)
	}
	return token, nil
}

// Join trades a join token for a host's identity. A host that joins again under its name is the same host, newly made: the
// runners recorded on it are gone. The agent has chosen its agent token and sends its hash, so that it can repeat a join whose
// answer was lost (see store.JoinHost); for one too old to do so the token is chosen here.
func (a agents) Join(ctx context.Context, req protocol.JoinRequest) (protocol.JoinResponse, error) {
	if a.c.stoodDown.Load() {
		return protocol.JoinResponse{}, errStoodDown
	}
	if req.Name == "" {
		return protocol.JoinResponse{}, fmt.Errorf("%w: a host needs a name to join", protocol.ErrConflict)
	}
	var token string
	hash := req.AgentTokenHash
	switch {
	case hash == "":
		token = auth.NewToken(auth.PrefixAgent)
		hash = auth.HashToken(token)
	case !protocol.ValidHash(hash):
		return protocol.JoinResponse{}, fmt.Errorf("%w: agent_token_hash is not a SHA-256 in hex", protocol.ErrInvalid)
	}
	h, dropped, err := a.c.store.JoinHost(ctx, auth.HashToken(req.Token), req.Name, hash, hostUpdate(req.Version, req.Host))
	switch {
	case errors.Is(err, store.ErrTokenSpent):
		a.c.log.Warn("refusing a join: the token is unknown, spent or expired", "host", req.Name)
		return protocol.JoinResponse{}, protocol.ErrUnauthorized
	case errors.Is(err, store.ErrConflict):
		a.c.log.Warn("refusing a join: the name is another host's", "host", req.Name, "err", err)
		return protocol.JoinResponse{}, fmt.Errorf("%w: %w", protocol.ErrConflict, err)
	case err != nil:
		return protocol.JoinResponse{}, err
	}
	a.c.log.Info("a host joined", "host", h.Name, "id", h.ID, "version", req.Version, "runners_dropped", len(dropped))
	for _, r := range dropped {
		a.c.runnerMoved(ctx, r)
		if err := a.c.blameFleet(ctx, r, r.Message); err != nil {
			a.c.log.Error("cannot mark a lost job", "runner", r.ID, "err", err)
		}
	}
	a.c.judgeHost(h)
	a.c.bus.Publish(events.HostChanged, h.ID)
	a.c.reconcile.Set()
	return protocol.JoinResponse{HostID: h.ID, AgentToken: token, HeartbeatInterval: protocol.SecondsOf(a.c.settings().HeartbeatInterval)}, nil
}

func hostUpdate(version string, h protocol.HostInfo) store.HostUpdate {
	u := store.HostUpdate{
		AgentVersion: version, OS: h.OS, Arch: h.Arch, Distro: h.Distro, CPUs: h.CPUs, MemoryMB: h.MemoryMB,
		DiskTotalMB: h.DiskTotalMB, DiskFreeMB: h.DiskFreeMB, Capacity: h.Capacity, Labels: h.Labels,
	}
	for _, b := range h.Backends {
		u.Backends = append(u.Backends, store.HostBackend(b))
	}
	return u
}

// errOtherRun refuses what a run of a host's agent says when another one takes its tasks: a cloned machine must not speak for its
// original, nor keep it looking alive. A run that was just started is refused until its first poll.
var errOtherRun = fmt.Errorf("%w: another run of this host's agent takes its tasks", protocol.ErrConflict)

// Heartbeat records that a host lives.
func (a agents) Heartbeat(ctx context.Context, cred protocol.Credential, hb protocol.Heartbeat) (protocol.HeartbeatResponse, error) {
	before, err := a.host(ctx, cred)
	if err != nil {
		return protocol.HeartbeatResponse{}, err
	}
	if !a.c.queue.Speaks(before.ID, cred.Instance) {
		return protocol.HeartbeatResponse{}, errOtherRun
	}
	h, err := a.c.store.Heartbeat(ctx, before.ID, hostUpdate(hb.Version, hb.Host))
	if err != nil {
		return protocol.HeartbeatResponse{}, err
	}
	if hb.Counted {
		if err := a.c.noteHeld(ctx, h, hb.Holds); err != nil {
			return protocol.HeartbeatResponse{}, err
		}
	}
	quiet := a.c.now().Sub(before.LastHeartbeatAt) > a.c.settings().Scheduler.HeartbeatTimeout
	a.c.judgeHost(h)
	full := h.DiskUsed() >= scheduler.DiskDanger
	if quiet || full != (before.DiskUsed() >= scheduler.DiskDanger) || h.Capacity != before.Capacity || !slices.Equal(h.Backends, before.Backends) || !maps.Equal(h.Labels, before.Labels) {
		a.c.bus.Publish(events.HostChanged, h.ID)
		a.c.reconcile.Set()
		a.c.cleanup.Set() // what is left on a host that was away can be removed now
	}
	return protocol.HeartbeatResponse{HeartbeatInterval: protocol.SecondsOf(a.c.settings().HeartbeatInterval), Cordoned: h.Cordoned}, nil
}

// Poll leases the host's next task.
func (a agents) Poll(ctx context.Context, cred protocol.Credential, wait time.Duration) (*protocol.Task, error) {
	h, err := a.host(ctx, cred)
	if err != nil {
		return nil, err
	}
	if err := a.c.queue.Begin(ctx, h.ID, cred.Instance); err != nil {
		return nil, err
	}
	return a.c.queue.Poll(ctx, h.ID, min(max(wait, 0), maxPoll))
}

// Result records the answer to a task, and what follows from it.
func (a agents) Result(ctx context.Context, cred protocol.Credential, res protocol.TaskResult) error {
	h, err := a.host(ctx, cred)
	if err != nil {
		return err
	}
	t, changed, err := a.c.store.FinishTask(ctx, h.ID, res.TaskID, res.Attempt, res.OK, res.Error)
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: task %s is not this host's in attempt %d", protocol.ErrConflict, res.TaskID, res.Attempt)
	}
	if err != nil {
		return err
	}
	if changed {
		a.c.bus.Publish(events.TaskWritten, t.ID)
	}
	// The answer is on disk: what follows from it is done even if the agent has hung up. A repeated answer does it again, since
	// an agent repeats what was not acknowledged, and that may be because it was not done.
	err = a.c.finished(context.WithoutCancel(ctx), t, res)
	if errors.Is(err, store.ErrTransition) || errors.Is(err, store.ErrNotFound) {
		return nil // the row has moved on
	}
	return err
}

func (c *Controller) finished(ctx context.Context, t store.Task, res protocol.TaskResult) error {
	switch protocol.TaskKind(t.Kind) {
	case protocol.TaskCreate:
		return c.created(ctx, t, res.OK, res.Error, store.Change{WorkloadID: res.WorkloadID, StartedAt: res.StartedAt})
	case protocol.TaskRemove:
		if res.OK {
			return c.workloadGone(ctx, t.RunnerID)
		}
		c.log.Warn("a host could not remove a runner; it is asked again", "runner", t.RunnerID, "host", t.HostID, "err", res.Error)
	case protocol.TaskStop:
		if !res.OK {
			c.log.Warn("a host could not stop a runner; it is asked to remove it", "runner", t.RunnerID, "host", t.HostID, "err", res.Error)
			r, err := c.store.Runner(ctx, t.RunnerID)
			if err != nil {
				return err
			}
			return c.removeWorkload(ctx, r)
		}
	case protocol.TaskStreamLogs:
		if !res.OK {
			c.relay.Fail(t.RunnerID, relay.End{Reason: relay.Failed, Message: "The runner's host says: " + res.Error + "."})
		}
	case protocol.TaskPrewarm:
		if !res.OK {
			c.log.Warn("a host could not fetch an image in advance", "host", t.HostID, "err", res.Error)
		}
	case protocol.TaskCancelLogs: // its stream has ended anyway
	}
	return nil
}

// created takes in the answer to a create. Doing so twice is doing it once.
func (c *Controller) created(ctx context.Context, t store.Task, ok bool, why string, ch store.Change) error {
	if ok {
		return c.createdOK(ctx, t, ch)
	}
	r, err := c.store.Runner(ctx, t.RunnerID)
	if err != nil {
		return err
	}
	if r.State == store.RunnerDraining {
		return c.workloadGone(ctx, r.ID)
	}
	// A failed create leaves nothing behind; said first, so that nobody is sent to clean up.
	if err := c.store.SetRunnerCleaned(ctx, r.ID); err != nil {
		return err
	}
	return c.failRunner(ctx, r.ID, why)
}

// createdOK records that a runner's workload runs.
func (c *Controller) createdOK(ctx context.Context, t store.Task, ch store.Change) error {
	r, err := c.store.Runner(ctx, t.RunnerID)
	if err != nil {
		return err
	}
	switch r.State {
	case store.RunnerFailed, store.RunnerRemoved:
		// It came too late: nobody waits for it any more.
		return c.removeWorkload(ctx, r)
	case store.RunnerProvisioning:
		_, changed, err := c.tryTransition(ctx, r.ID, store.RunnerRegistering, ch)
		if changed || !errors.Is(err, store.ErrTransition) {
			return err
		}
		return c.noteStart(ctx, r.ID, ch) // GitHub's word that it is busy came in between
	default:
		return c.noteStart(ctx, r.ID, ch)
	}
}

// noteStart fills in what a create's answer says of a runner that is further on already: GitHub's word that it is busy may
// come first.
func (c *Controller) noteStart(ctx context.Context, id string, ch store.Change) error {
	r, err := c.store.Runner(ctx, id)
	if err != nil {
		return err
	}
	if _, _, err := c.store.TransitionRunner(ctx, id, r.State, ch); err != nil {
		return err
	}
	c.bus.Publish(events.RunnerChanged, id)
	return nil
}

// Report takes in what a host sees of its runners.
func (a agents) Report(ctx context.Context, cred protocol.Credential, reports []protocol.RunnerReport) (protocol.ReportResponse, error) {
	h, err := a.host(ctx, cred)
	if err != nil {
		return protocol.ReportResponse{}, err
	}
	if !a.c.queue.Speaks(h.ID, cred.Instance) {
		return protocol.ReportResponse{}, errOtherRun
	}
	resp := protocol.ReportResponse{FinishedRetention: protocol.SecondsOf(a.c.settings().FinishedRetention)}
	for _, rep := range reports {
		over, err := a.c.applyReport(ctx, h, rep)
		if err != nil {
			return resp, fmt.Errorf("cannot take in the report on runner %s: %w", rep.RunnerID, err)
		}
		if over {
			resp.Finished = append(resp.Finished, rep.RunnerID)
		}
	}
	return resp, nil
}

// applyReport moves a runner to where its host says it is. It says whether the runner is over, so that
// the host may delete what is left of it.
func (c *Controller) applyReport(ctx context.Context, h store.Host, rep protocol.RunnerReport) (over bool, err error) {
	r, err := c.store.Runner(ctx, rep.RunnerID)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if r.HostID != h.ID {
		return c.strangersReport(ctx, h, r)
	}
	ch := store.Change{Message: rep.Message, WorkloadID: rep.WorkloadID, ExitCode: rep.ExitCode, OOMKilled: rep.OOMKilled}
	ended := rep.State == string(store.RunnerRemoved) || rep.State == string(store.RunnerFailed)
	switch {
	case r.State == store.RunnerRemoved || r.State == store.RunnerFailed:
		if ended && !r.Cleaned {
			return true, c.workloadGone(ctx, r.ID)
		}
		return true, nil
	case ended:
		return true, c.ended(ctx, r, rep, ch)
	case rep.State == string(store.RunnerRegistering) && r.State == store.RunnerProvisioning:
		_, _, err = c.tryTransition(ctx, r.ID, store.RunnerRegistering, ch)
	case rep.Phase == protocol.PhaseRunning && r.State == store.RunnerProvisioning && rep.State == "":
		// The create's own answer was lost; this says the same.
		if _, _, err = c.transition(ctx, r.ID, store.RunnerRegistering, ch); err == nil {
			_, _, err = c.transition(ctx, r.ID, store.RunnerIdle, store.Change{})
		}
	case rep.Phase == protocol.PhaseRunning && r.State == store.RunnerRegistering && rep.State == "":
		_, _, err = c.tryTransition(ctx, r.ID, store.RunnerIdle, ch)
	}
	if errors.Is(err, store.ErrTransition) {
		err = nil
	}
	return false, err
}

// strangersReport answers a host that reports another's runner. When that other is gone, this is the same machine, or shares its
// engine: a host without live runners was deleted, so the runner has ended, and what is left of it may go.
func (c *Controller) strangersReport(ctx context.Context, h store.Host, r store.Runner) (over bool, err error) {
	if _, err := c.store.Host(ctx, r.HostID); errors.Is(err, store.ErrNotFound) && !r.State.Live() {
		return true, nil
	} else if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	c.log.Warn("ignoring a report on another host's runner", "host", h.Name, "runner", r.ID)
	return false, nil
}

// ended records that a runner's workload is over.
func (c *Controller) ended(ctx context.Context, r store.Runner, rep protocol.RunnerReport, ch store.Change) error {
	// Its host deletes what is left once it has our answer: nobody else needs to.
	if err := c.store.SetRunnerCleaned(ctx, r.ID); err != nil {
		return err
	}
	to := store.RunnerState(rep.State)
	if r.State == store.RunnerDraining {
		to = store.RunnerRemoved // it was told to end, however it did
	}
	if to == store.RunnerRemoved {
		if err := c.noteExit(ctx, r); err != nil {
			return err
		}
	}
	r, changed, err := c.transition(ctx, r.ID, to, ch)
	if err != nil {
		return err
	}
	if changed && to == store.RunnerFailed {
		if err := c.blameFleet(ctx, r, rep.Message); err != nil {
			return err
		}
	}
	c.judgeVersion(ctx, r, rep.Message)
	return nil
}

// judgeVersion raises the problem that stops a whole fleet overnight: GitHub refuses runners that are too old.
func (c *Controller) judgeVersion(ctx context.Context, r store.Runner, message string) {
	if !strings.Contains(message, "deprecated") {
		return
	}
	pool := c.poolName(ctx, r.PoolID)
	c.problems.Raise(r.PoolID, problems.Problem{
		Code:  problems.RunnerVersion,
		Title: fmt.Sprintf("GitHub refuses the runner version in pool %s's image", pool),
		Why:   fmt.Sprintf("A runner of image %s ended with: %s. No job of this pool can run until its image is newer.", r.Image, message),
		Fix:   "Rebuild the runner image with the current runner release, or update the appliance, and set it on the pool.",
	})
}

// SendLogs relays a runner's output to its viewers, until it or their interest ends; without any, it says so at once.
func (a agents) SendLogs(ctx context.Context, cred protocol.Credential, stream string, r io.Reader) error {
	h, err := a.host(ctx, cred)
	if err != nil {
		return err
	}
	s := a.c.relay.Find(h.ID, stream)
	if s == nil {
		return fmt.Errorf("%w: nobody watches this stream", protocol.ErrConflict)
	}
	if err := a.c.logsBegun(ctx, s); err != nil {
		return err
	}
	err = a.c.relay.Send(ctx, h.ID, stream, r)
	if errors.Is(err, relay.ErrNobody) {
		return fmt.Errorf("%w: %w", protocol.ErrConflict, err)
	}
	return err
}
