package machines

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/machines/plan"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/provider"
)

// allocate chooses a planned machine's identity and writes it down, one machine of a provider after the other.
func (h hand) allocate(ctx context.Context, m store.Machine) (time.Duration, error) {
	if !h.row.PausedAt.IsZero() || !h.row.Enabled {
		return watchWait, nil // nothing of it exists: it waits, and its limit ends it
	}
	turn := h.crew.slot("allocations of " + h.row.ID)
	for range cap(turn) { // all of them: this is for one at a time
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	taken, err := h.Store.TakenIdentities(ctx, h.row.ID, h.Now().Add(-Tombstone))
	if err != nil {
		return 0, err
	}
	resources := make([]provider.Resource, len(taken))
	for i, t := range taken {
		resources[i] = provider.Resource{ID: t.ResourceID, Zone: t.Zone}
	}
	cctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	r, err := h.provider.Allocate(cctx, provider.Shape(m.Shape), resources)
	if hopeless(err) {
		return pollWait, h.fail(ctx, m, store.MachineChange{Message: fmt.Sprintf("no place was found for it: %v", err)})
	}
	if err != nil {
		return 0, fmt.Errorf("cannot find a place for machine %s: %w", m.Name, err)
	}
	m, err = h.Store.IdentifyMachine(ctx, m.ID, store.Identity{ResourceID: r.ID, Zone: r.Zone},
		fmt.Sprintf("it is made as %s", r.ID))
	if err != nil {
		return retryWait, ignoreMoved(err)
	}
	h.moved(m)
	return 0, nil
}

// hopeless says that asking again will not help, and that nothing was done.
func hopeless(err error) bool {
	class := provider.Class(err)
	return errors.Is(class, provider.ErrInvalid) || errors.Is(class, provider.ErrQuota) || errors.Is(class, provider.ErrDenied) ||
		errors.Is(class, provider.ErrConflict) || errors.Is(class, provider.ErrForeign)
}

// create takes the next step towards a machine that runs. It leaves its state by what was seen, never by what was asked for.
func (h hand) create(ctx context.Context, m store.Machine) (time.Duration, error) {
	over, progress, err := h.follow(ctx, m)
	if err != nil {
		return 0, err
	}
	if !over {
		return pollWait, nil
	}
	if progress.Err != nil {
		h.Logger.Warn("an operation for a machine failed", "machine", m.ID, "operation", m.Operation, "err", progress.Err, "log", progress.Log)
		if hopeless(progress.Err) {
			return h.abandon(ctx, m, fmt.Sprintf("it could not be built: %v", progress.Err))
		}
	}
	m.Operation = ""
	if m.HostID != "" { // it has joined: no more has to be made, and no more may be after it has settled
		return h.confirm(ctx, m)
	}
	if err := h.Lease(ctx); err != nil {
		return 0, err
	}
	cctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	s, err := h.provider.Create(cctx, h.machine(m))
	switch {
	case err == nil && s.Done:
		return h.confirm(ctx, m)
	case err == nil:
		if err := h.noteStep(ctx, m, s, true); err != nil {
			return 0, err
		}
		return h.emerge(ctx, m, s)
	case hopeless(err):
		return h.abandon(ctx, m, fmt.Sprintf("it could not be built: %v", err))
	default:
		// Whether it had an effect is for the next look to say. The identity stays the same.
		if _, _, seen := h.observe(ctx, m); seen != nil {
			err = errors.Join(err, seen)
		}
		return 0, fmt.Errorf("cannot take the next step for machine %s: %w", m.Name, err)
	}
}

// confirm moves a machine that should run to where what is seen of it says that it is.
func (h hand) confirm(ctx context.Context, m store.Machine) (time.Duration, error) {
	s, f, err := h.observe(ctx, m)
	if err != nil {
		return 0, err
	}
	if s != ours || f.Power == provider.PowerOff {
		if m.HostID != "" && (s == gone || s == foreign) {
			return h.abandon(ctx, m, "it had joined, and is gone")
		}
		return pollWait, nil
	}
	_, err = h.move(ctx, m.ID, store.MachineBootstrapping, store.MachineChange{Message: "it is powered on"})
	return 0, ignoreMoved(err)
}

// emerge notes when a machine that is still being made has come into existence.
func (h hand) emerge(ctx context.Context, m store.Machine, s provider.Step) (time.Duration, error) {
	if m.State != store.MachineCreating || s.Operation != "" {
		return pollWait, nil
	}
	sight, f, err := h.observe(ctx, m)
	if err == nil && sight == ours && !f.Incomplete {
		_, err = h.move(ctx, m.ID, store.MachineStarting, store.MachineChange{Message: "its resource exists"})
	}
	return 0, ignoreMoved(err)
}

// abandon gives a machine up that is being made, once it is known what became of it. What cannot be known in time is an operator's.
func (h hand) abandon(ctx context.Context, m store.Machine, why string) (time.Duration, error) {
	s, _, err := h.observe(ctx, m)
	if _, late := h.giveUp(m.ID); s == unclear && !late {
		return pollWait, err
	} else if s == unclear && m.State == store.MachineCreating {
		_, err := h.move(ctx, m.ID, store.MachineQuarantined, store.MachineChange{
			Message: fmt.Sprintf("%s, and whether something was made as %s could not be found out", why, m.ResourceID)})
		return pollWait, ignoreMoved(err)
	}
	if s == foreign {
		why += "; something else holds " + m.ResourceID
	}
	return pollWait, h.fail(ctx, m, store.MachineChange{Message: why})
}

// drive makes a machine's config drive, with a join token of its own that voids the one before.
func (h hand) drive(ctx context.Context, m store.Machine) ([]byte, error) {
	token := auth.NewToken(auth.PrefixJoin)
	limits, _ := h.Limits()
	if _, err := h.Store.SetMachineToken(ctx, m.ID, auth.HashToken(token), h.Now().Add(TokenLife(limits))); err != nil {
		return nil, err
	}
	iso, err := h.Drive(ctx, Guest{Machine: m, Token: token})
	if err != nil {
		return nil, fmt.Errorf("cannot make the config drive of machine %s: %w", m.Name, err)
	}
	return iso, nil
}

// TokenLife is how long a machine's join token lasts: as long as the machine itself is waited for.
func TokenLife(l plan.Limits) time.Duration {
	d := plan.DefaultLimits()
	for limit, or := range map[*time.Duration]time.Duration{&l.Create: d.Create, &l.Boot: d.Boot, &l.Enrol: d.Enrol} {
		if *limit <= 0 {
			*limit = or
		}
	}
	return l.Create + l.Boot + l.Enrol
}

// await waits for a machine to join, and sees that it is still there meanwhile.
func (h hand) await(ctx context.Context, m store.Machine) (time.Duration, error) {
	switch {
	case m.State == store.MachineBootstrapping && !m.BootedAt.IsZero():
		why := "its guest has been heard from"
		if m.HostID != "" {
			why = "its agent has joined"
		}
		_, err := h.move(ctx, m.ID, store.MachineEnrolling, store.MachineChange{Message: why})
		return 0, ignoreMoved(err)
	case m.State == store.MachineEnrolling && m.HostID != "":
		return h.welcome(ctx, m)
	}
	s, _, err := h.observe(ctx, m)
	switch {
	case err != nil:
		return 0, err
	case s == gone:
		return pollWait, h.fail(ctx, m, store.MachineChange{Message: "it was deleted at the provider before it joined"})
	case s == foreign:
		return pollWait, h.fail(ctx, m, store.MachineChange{Message: notOurs(m)})
	default:
		return watchWait, nil
	}
}

// welcome settles a machine that has joined. It is a host already: a drive that cannot be taken away does not keep it from being ready.
func (h hand) welcome(ctx context.Context, m store.Machine) (time.Duration, error) {
	wait, err := h.settle(ctx, m)
	now, rerr := h.Store.Machine(ctx, m.ID)
	if rerr != nil {
		return 0, rerr
	}
	if !now.Settled && h.Now().Sub(m.JoinedAt) < settlePatience {
		return wait, err
	}
	message := "it has joined"
	if !now.Settled {
		message = "it has joined; its config drive could not be taken away yet"
	}
	_, merr := h.move(ctx, m.ID, store.MachineReady, store.MachineChange{Message: message})
	return pollWait, ignoreMoved(merr)
}

// settle takes the next step towards the config drive with its secrets being gone.
func (h hand) settle(ctx context.Context, m store.Machine) (time.Duration, error) {
	if m.Settled {
		return lookWait, nil
	}
	over, _, err := h.follow(ctx, m)
	if err != nil {
		return 0, err
	}
	if !over {
		return pollWait, nil
	}
	m.Operation = ""
	if err := h.Lease(ctx); err != nil {
		return 0, err
	}
	cctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	s, err := h.provider.Settle(cctx, h.machine(m))
	if err != nil {
		return 0, fmt.Errorf("cannot take the config drive of machine %s away: %w", m.Name, err)
	}
	_, err = h.Store.NoteMachine(ctx, m.ID, m.State, store.MachineProgress{Operation: &s.Operation, Doing: s.Doing, Settled: s.Done})
	if s.Done || s.Operation != "" {
		return pollWait, ignoreMoved(err)
	}
	return 0, ignoreMoved(err)
}
