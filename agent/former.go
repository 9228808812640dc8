package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// A host that was deleted at the controller and has joined again has another ID, and sees only what it starts under that one. What
// it had before is still on its engine. It is looked after like the rest: reported, and removed once the controller has disowned it.

// inherited is the backend of a former host, under a name of its own. Nothing is started with it.
type inherited struct {
	backend.Backend
	name string
}

// Name implements backend.Backend.
func (i inherited) Name() string { return i.name }

// takeFormer adds the backends of this agent's former hosts, and forgets those hosts of which nothing is left.
func (a *Agent) takeFormer(ctx context.Context) error {
	st, err := LoadState(a.cfg.StatePath)
	if err != nil || len(st.Former) == 0 || a.cfg.Bind == nil {
		return err // without Bind every workload is seen anyway
	}
	kept := slices.DeleteFunc(slices.Clone(st.Former), func(id string) bool {
		bs, err := a.formerBackends(ctx, id)
		if err != nil {
			a.log.Warn("cannot look after what this host left under its former ID", "former", id, "error", err)
			return false
		}
		a.backends = append(slices.Clip(a.backends), bs...)
		for _, b := range bs {
			a.byName[b.Name()] = b
		}
		return len(bs) == 0
	})
	if len(kept) == len(st.Former) {
		return nil
	}
	st.Former = kept
	return st.save(a.cfg.StatePath)
}

// formerBackends are the backends of a former host that have, or may have, something of it.
func (a *Agent) formerBackends(ctx context.Context, id string) ([]backend.Backend, error) {
	bs, err := a.cfg.Bind(id)
	if err != nil {
		return nil, err
	}
	var out []backend.Backend
	for _, b := range bs {
		listCtx, cancel := context.WithTimeout(ctx, ListTimeout)
		ws, err := b.List(listCtx)
		cancel()
		if err != nil || len(ws) > 0 {
			out = append(out, inherited{b, fmt.Sprintf("%s of %s", b.Name(), id)})
		}
	}
	return out, nil
}
