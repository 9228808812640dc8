package protocol

import (
	"context"
	"net/http"
	"slices"
	"strings"
)

// HeaderHeld carries the IDs of the tasks that an agent holds, with commas between them, or
// heldNone. Without it the agent has not said: it is too old to, or holds too many to list.
const HeaderHeld = "Zoomies-Held"

const heldNone = "none"

// MaxHeld is how many tasks may be named: proxies bound a header's size.
const MaxHeld = 256

type heldKey struct{}

// WithHeld says in the context of a Poll which tasks the agent holds: those that were delivered to
// it and that it still works at, has not got rid of the answer to, or leaves to their lease on
// purpose. A host makes one poll at a time, so a task that was leased to it before the poll began
// and is not among them has not arrived: the answer that carried it was lost, and the controller
// offers it again at once instead of waiting for the lease to end. More than MaxHeld is not said.
func WithHeld(ctx context.Context, taskIDs []string) context.Context {
	if len(taskIDs) > MaxHeld {
		return ctx
	}
	return context.WithValue(ctx, heldKey{}, slices.Clone(taskIDs))
}

// HeldOf returns the tasks that the agent holds; said is false when it has not said.
func HeldOf(ctx context.Context) (taskIDs []string, said bool) {
	taskIDs, said = ctx.Value(heldKey{}).([]string)
	return taskIDs, said
}

// SetHeld puts what the agent has said in ctx into a request's headers.
func SetHeld(ctx context.Context, h http.Header) {
	if ids, said := HeldOf(ctx); said && len(ids) == 0 {
		h.Set(HeaderHeld, heldNone)
	} else if said {
		h.Set(HeaderHeld, strings.Join(ids, ","))
	}
}

// withHeldOf is the request's context with what its headers say.
func withHeldOf(r *http.Request) context.Context {
	switch v := r.Header.Get(HeaderHeld); v {
	case "":
		return r.Context()
	case heldNone:
		return WithHeld(r.Context(), nil)
	default:
		return WithHeld(r.Context(), strings.Split(v, ","))
	}
}
