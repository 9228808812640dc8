package machines

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/provider"
)

// destroy is the one place from which anything is ever taken away, whoever wants it gone and why. The row, read anew, must say
// deleting; this controller must hold its lease; and what is there, inspected anew, must carry the row's own mark. Where they do not
// agree the machine is quarantined, and nothing is touched.
//
// An answer to a delete proves nothing. The row is deleted when an inspection finds nothing.
func (h hand) destroy(ctx context.Context, id string) (time.Duration, error) {
	m, err := h.Store.Machine(ctx, id)
	if err != nil {
		return 0, err
	}
	if m.State != store.MachineDeleting || m.ResourceID == "" {
		return pollWait, nil
	}
	if err := h.Lease(ctx); err != nil {
		return 0, err
	}
	over, progress, err := h.follow(ctx, m)
	if err != nil {
		return 0, err
	}
	if !over {
		return pollWait, nil
	}
	if progress.Err != nil {
		h.Logger.Warn("an operation for a machine that goes failed", "machine", m.ID, "operation", m.Operation, "err", progress.Err, "log", progress.Log)
	}
	m.Operation = ""
	s, f, err := h.observe(ctx, m)
	switch {
	case err != nil:
		return 0, err
	case s == unclear:
		return retryWait, nil
	case s == foreign, f.Template:
		return h.quarantine(ctx, m)
	}
	cctx, cancel := context.WithTimeout(ctx, CallLimit)
	defer cancel()
	// What is gone may have left its config drive: the provider is asked all the same.
	step, err := h.provider.Delete(cctx, h.machine(m))
	switch {
	case errors.Is(provider.Class(err), provider.ErrForeign):
		return h.quarantine(ctx, m)
	case err != nil:
		return 0, fmt.Errorf("cannot take the next step to delete machine %s: %w", m.Name, err)
	case !step.Done:
		if err := h.noteStep(ctx, m, step, false); err != nil {
			return 0, err
		}
		if step.Operation != "" {
			return pollWait, nil
		}
		return 0, nil
	}
	if s != gone {
		if s, _, err = h.observe(ctx, m); err != nil {
			return 0, err
		}
	}
	if s != gone {
		// It says that it is done, and it is not.
		return retryWait, nil
	}
	_, err = h.move(ctx, m.ID, store.MachineDeleted, store.MachineChange{Message: fmt.Sprintf("nothing is left of %s", m.ResourceID)})
	return pollWait, ignoreMoved(err)
}

func (h hand) quarantine(ctx context.Context, m store.Machine) (time.Duration, error) {
	_, err := h.move(ctx, m.ID, store.MachineQuarantined, store.MachineChange{Message: notOurs(m)})
	return pollWait, ignoreMoved(err)
}

// look is whether a machine that was given up has left something after all.
func (h hand) look(ctx context.Context, m store.Machine) (time.Duration, error) {
	s, _, err := h.observe(ctx, m)
	if err != nil || s != ours {
		return lookWait, err
	}
	_, err = h.move(ctx, m.ID, store.MachineDeleting, store.MachineChange{Message: "it was given up, and its resource exists: " + m.Message})
	return 0, ignoreMoved(err)
}
