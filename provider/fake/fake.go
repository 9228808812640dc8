package fake

import (
	"context"
	"errors"
	"fmt"

	"github.com/zoomies-fleet/zoomies/provider"
)

// Provider is one connection to a World. It keeps nothing: another one of the same World is the controller after a restart.
type Provider struct{ w *World }

var (
	_ provider.Provider   = (*Provider)(nil)
	_ provider.Imager     = (*Provider)(nil)
	_ provider.Discoverer = (*Provider)(nil)
)

// Provider connects to the world.
func (w *World) Provider() *Provider { return &Provider{w: w} }

// Kind implements provider.Provider.
func (p *Provider) Kind() string { return "fake" }

// Capabilities implements provider.Provider.
func (p *Provider) Capabilities() provider.Capabilities {
	return provider.Capabilities{Images: true, Discover: true, Settle: true}
}

// Preflight implements provider.Provider.
func (p *Provider) Preflight(ctx context.Context) []provider.Finding {
	if _, err := p.w.Index(ctx); err != nil {
		f := provider.Finding{
			Code: "unreachable", Severity: provider.SeverityError, Title: "The provider does not answer", Why: err.Error(), Fix: "Wait, and check again.",
		}
		if errors.Is(err, provider.ErrDenied) {
			f.Code, f.Title, f.Fix = "privilege_missing", "The credential may not list machines", "Grant it the right to."
		}
		return []provider.Finding{f}
	}
	return nil
}

// Discover implements provider.Discoverer.
func (p *Provider) Discover(ctx context.Context) (provider.Discovery, error) {
	all, err := p.w.Index(ctx)
	if err != nil {
		return provider.Discovery{}, err
	}
	d := provider.Discovery{Version: "fake"}
	for _, z := range p.w.o.Zones {
		d.Zones = append(d.Zones, provider.Zone{Name: z, Online: true, CPUs: 64, MemoryMB: 1 << 18, FreeMB: 1 << 18})
	}
	for _, f := range all {
		if f.Template {
			d.Images = append(d.Images, f.Name)
		}
	}
	return d, nil
}

// Allocate implements provider.Provider.
func (p *Provider) Allocate(ctx context.Context, shape provider.Shape, taken []provider.Resource) (provider.Resource, error) {
	if shape.CPUs <= 0 || shape.MemoryMB <= 0 {
		return provider.Resource{}, fmt.Errorf("cannot place a machine with %d CPUs and %d MiB: %w", shape.CPUs, shape.MemoryMB, provider.ErrInvalid)
	}
	ids := map[string]bool{}
	for _, r := range taken {
		ids[r.ID] = true
	}
	return p.w.Free(ctx, ids)
}

// errUnread is beside ErrDenied when something is there and only that may not be read.
var errUnread = errors.New("something has the identity, and the credential may not read it")

// read is what is under an identity. Where a refusal says nothing about whether anything is there, it asks whether the identity is held.
func (p *Provider) read(ctx context.Context, id string) (provider.Found, error) {
	f, err := p.w.Read(ctx, id)
	if !errors.Is(err, provider.ErrDenied) {
		return f, err
	}
	switch held, err := p.w.Held(ctx, id); {
	case err != nil:
		return provider.Found{}, err
	case !held:
		return provider.Found{}, fmt.Errorf("cannot read %s: %w", id, provider.ErrNotFound)
	}
	return provider.Found{}, fmt.Errorf("cannot read %s: %w: %w", id, errUnread, provider.ErrDenied)
}

// held is what the identity of m holds, if it is m: nothing is an empty answer and false.
func (p *Provider) held(ctx context.Context, m provider.Machine) (provider.Found, bool, error) {
	if m.Mark.Resource != m.Resource.ID || m.Mark.Fleet != p.w.o.Fleet || m.Mark.Machine == "" || m.Mark.Nonce == "" || m.Mark.Resource == "" {
		return provider.Found{}, false, fmt.Errorf("cannot work on %q with the mark %+v: %w", m.Resource.ID, m.Mark, provider.ErrInvalid)
	}
	f, err := p.read(ctx, m.Resource.ID)
	switch {
	case errors.Is(err, provider.ErrNotFound):
		return provider.Found{}, false, nil
	case errors.Is(err, errUnread):
		return f, true, fmt.Errorf("cannot say whose %s is: %w: %s", m.Resource.ID, provider.ErrLocked, errUnread.Error())
	case err != nil:
		return provider.Found{}, false, err
	case f.Incomplete && f.Mark == nil:
		return f, true, fmt.Errorf("cannot say whose %s is, which is being made: %w", f.Resource.ID, provider.ErrLocked)
	case f.Template || !f.Carries(m.Mark):
		return f, true, fmt.Errorf("cannot touch %s (%s), which is not %s: %w", f.Resource.ID, f.Name, m.Mark.Machine, provider.ErrForeign)
	case f.Locked != "":
		return f, true, fmt.Errorf("cannot work on %s while %s is under way: %w", f.Resource.ID, f.Locked, provider.ErrLocked)
	}
	return f, true, nil
}

// under is the step of waiting for the saved operation, where that still runs and locks what it works on.
func (p *Provider) under(ctx context.Context, m provider.Machine, err error) (provider.Step, error) {
	if errors.Is(err, provider.ErrLocked) && m.Operation != "" {
		if progress, asked := p.w.Task(ctx, m.Operation); asked == nil && !progress.Ended {
			return provider.Step{Operation: m.Operation, Doing: "waiting for " + m.Operation}, nil
		}
	}
	return provider.Step{}, err
}

// step is the answer after a request that began an operation.
func step(op string, err error, doing string, args ...any) (provider.Step, error) {
	if err != nil {
		// Whatever was not there a moment after it was read: nothing is proved, it has to be looked at again.
		if errors.Is(err, provider.ErrNotFound) {
			err = fmt.Errorf("%w: %s", provider.ErrConflict, err.Error())
		}
		return provider.Step{}, err
	}
	return provider.Step{Operation: op, Doing: fmt.Sprintf(doing, args...)}, nil
}

// Create implements provider.Provider.
func (p *Provider) Create(ctx context.Context, m provider.Machine) (provider.Step, error) {
	if m.Name == "" || m.ConfigDrive == nil {
		return provider.Step{}, fmt.Errorf("cannot create a machine without a name or a config drive: %w", provider.ErrInvalid)
	}
	f, there, err := p.held(ctx, m)
	id := m.Resource.ID
	switch {
	case err != nil:
		return p.under(ctx, m, err)
	case !there:
		op, err := p.w.Make(ctx, m.Mark, m.Resource, m.Name, m.Shape, m.Image.SHA256)
		return step(op, err, "making %s", id)
	case f.Power == provider.PowerOn:
		return provider.Step{Done: true, Doing: "running"}, nil
	case !p.w.ready(id):
		return step("", p.w.Configure(ctx, m.Mark, id), "configuring %s", id)
	case !f.Drive:
		content, err := m.ConfigDrive(ctx)
		if err != nil {
			return provider.Step{}, fmt.Errorf("cannot make the config drive of %s: %w: %w", id, provider.ErrTransient, err)
		}
		if err := p.w.WriteDrive(ctx, m.Mark, id, content); err != nil {
			return provider.Step{}, err
		}
		return step("", p.w.Attach(ctx, m.Mark, id), "giving %s its config drive", id)
	default:
		op, err := p.w.Start(ctx, m.Mark, id)
		return step(op, err, "starting %s", id)
	}
}

// Settle implements provider.Provider.
func (p *Provider) Settle(ctx context.Context, m provider.Machine) (provider.Step, error) {
	f, _, err := p.held(ctx, m)
	if err != nil {
		return p.under(ctx, m, err)
	}
	if f.Drive {
		return step("", p.w.Detach(ctx, m.Mark, m.Resource.ID), "taking the config drive out of %s", m.Resource.ID)
	}
	return p.erase(ctx, m)
}

// erase blanks the drive of an identity that m has or nobody; Done when there is none to blank.
func (p *Provider) erase(ctx context.Context, m provider.Machine) (provider.Step, error) {
	switch written, err := p.w.ReadDrive(ctx, m.Resource.ID); {
	case err != nil:
		return provider.Step{}, err
	case written:
		return step("", p.w.EraseDrive(ctx, m.Mark, m.Resource.ID), "blanking the config drive of %s", m.Resource.ID)
	}
	return provider.Step{Done: true}, nil
}

// Inspect implements provider.Provider.
func (p *Provider) Inspect(ctx context.Context, r provider.Resource) (provider.Found, error) {
	return p.read(ctx, r.ID)
}

// List implements provider.Provider.
func (p *Provider) List(ctx context.Context) ([]provider.Found, error) {
	all, err := p.w.Index(ctx)
	if err != nil {
		return nil, err
	}
	var out []provider.Found
	for _, f := range all {
		if p.w.ours(f) {
			out = append(out, f)
		}
	}
	return out, nil
}

// Delete implements provider.Provider.
func (p *Provider) Delete(ctx context.Context, m provider.Machine) (provider.Step, error) {
	f, there, err := p.held(ctx, m)
	id := m.Resource.ID
	switch {
	case err != nil:
		return p.under(ctx, m, err)
	case !there:
		return p.erase(ctx, m)
	case f.Protected:
		return provider.Step{}, fmt.Errorf("cannot delete %s, which is protected: %w", id, provider.ErrConflict)
	case f.Power == provider.PowerOn:
		op, err := p.w.Stop(ctx, m.Mark, id)
		return step(op, err, "stopping %s", id)
	case f.Drive:
		return step("", p.w.Detach(ctx, m.Mark, id), "taking the config drive out of %s", id)
	}
	if s, err := p.erase(ctx, m); err != nil || !s.Done {
		return s, err
	}
	op, err := p.w.Destroy(ctx, m.Mark, id)
	return step(op, err, "deleting %s", id)
}

// Follow implements provider.Provider.
func (p *Provider) Follow(ctx context.Context, operation string) (provider.Progress, error) {
	return p.w.Task(ctx, operation)
}
