package providertest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/provider"
	"github.com/zoomies-fleet/zoomies/provider/fake"
	"github.com/zoomies-fleet/zoomies/provider/providertest"
)

// mutant is a fake with one promise broken: a nil func keeps it.
type mutant struct {
	*fake.Provider

	w        *fake.World
	create   func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error)
	settle   func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error)
	delete   func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error)
	allocate func(m *mutant, ctx context.Context, shape provider.Shape, taken []provider.Resource) (provider.Resource, error)
	inspect  func(m *mutant, ctx context.Context, r provider.Resource) (provider.Found, error)
	list     func(m *mutant, ctx context.Context) ([]provider.Found, error)
	follow   func(m *mutant, ctx context.Context, op string) (provider.Progress, error)
	ensure   func(m *mutant, ctx context.Context, img provider.Image) (provider.Step, error)
	prune    func(m *mutant, ctx context.Context, keep provider.Image) (provider.Step, error)
	check    func(m *mutant, ctx context.Context) []provider.Finding
}

func (m *mutant) Create(ctx context.Context, x provider.Machine) (provider.Step, error) {
	if m.create != nil {
		return m.create(m, ctx, x)
	}
	return m.Provider.Create(ctx, x)
}

func (m *mutant) Settle(ctx context.Context, x provider.Machine) (provider.Step, error) {
	if m.settle != nil {
		return m.settle(m, ctx, x)
	}
	return m.Provider.Settle(ctx, x)
}

func (m *mutant) Delete(ctx context.Context, x provider.Machine) (provider.Step, error) {
	if m.delete != nil {
		return m.delete(m, ctx, x)
	}
	return m.Provider.Delete(ctx, x)
}

func (m *mutant) Allocate(ctx context.Context, shape provider.Shape, taken []provider.Resource) (provider.Resource, error) {
	if m.allocate != nil {
		return m.allocate(m, ctx, shape, taken)
	}
	return m.Provider.Allocate(ctx, shape, taken)
}

func (m *mutant) Inspect(ctx context.Context, r provider.Resource) (provider.Found, error) {
	if m.inspect != nil {
		return m.inspect(m, ctx, r)
	}
	return m.Provider.Inspect(ctx, r)
}

func (m *mutant) List(ctx context.Context) ([]provider.Found, error) {
	if m.list != nil {
		return m.list(m, ctx)
	}
	return m.Provider.List(ctx)
}

func (m *mutant) Follow(ctx context.Context, op string) (provider.Progress, error) {
	if m.follow != nil {
		return m.follow(m, ctx, op)
	}
	return m.Provider.Follow(ctx, op)
}

func (m *mutant) EnsureImage(ctx context.Context, img provider.Image) (provider.Step, error) {
	if m.ensure != nil {
		return m.ensure(m, ctx, img)
	}
	return m.Provider.EnsureImage(ctx, img)
}

func (m *mutant) PruneImages(ctx context.Context, keep provider.Image) (provider.Step, error) {
	if m.prune != nil {
		return m.prune(m, ctx, keep)
	}
	return m.Provider.PruneImages(ctx, keep)
}

func (m *mutant) Preflight(ctx context.Context) []provider.Finding {
	if m.check != nil {
		return m.check(m, ctx)
	}
	return m.Provider.Preflight(ctx)
}

// as has the fake act as if the machine had whatever mark is there, as one does that asks none; ok says whether anything is.
func (m *mutant) as(ctx context.Context, x provider.Machine, when func(provider.Found) bool) provider.Machine {
	if f, err := m.w.Read(ctx, x.Resource.ID); err == nil && f.Mark != nil && when(f) {
		x.Mark = *f.Mark
		x.Mark.Resource = x.Resource.ID
	}
	return x
}

// destroy stops and deletes what has an identity, whosever it is.
func (m *mutant) destroy(ctx context.Context, x provider.Machine) (provider.Step, error) {
	f, err := m.w.Read(ctx, x.Resource.ID)
	switch {
	case errors.Is(err, provider.ErrNotFound):
		return provider.Step{Done: true}, m.w.EraseDrive(ctx, x.Mark, x.Resource.ID)
	case err != nil:
		return provider.Step{}, err
	case f.Power == provider.PowerOn:
		op, err := m.w.Stop(ctx, x.Mark, x.Resource.ID)
		return provider.Step{Operation: op}, err
	}
	op, err := m.w.Destroy(ctx, x.Mark, x.Resource.ID)
	return provider.Step{Operation: op}, err
}

var mutants = []struct {
	name string
	m    mutant
	want string // a word of the name of a case that has to catch it
}{
	{"creates another when an answer is lost", mutant{create: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		s, err := m.Provider.Create(ctx, x)
		if errors.Is(err, provider.ErrUnknownOutcome) {
			if r, free := m.w.Free(ctx, map[string]bool{x.Resource.ID: true}); free == nil {
				x.Resource, x.Mark.Resource = r, r.ID
				return m.Provider.Create(ctx, x)
			}
		}
		return s, err
	}}, "create makes one machine whichever"},
	{"creates under the next number when its own is taken", mutant{create: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		s, err := m.Provider.Create(ctx, x)
		if errors.Is(err, provider.ErrForeign) {
			if r, free := m.w.Free(ctx, nil); free == nil {
				x.Resource, x.Mark.Resource = r, r.ID
				return m.Provider.Create(ctx, x)
			}
		}
		return s, err
	}}, "create leaves what is not ours"},
	{"takes what is there under its name for its own", mutant{create: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		if f, err := m.w.Read(ctx, x.Resource.ID); err == nil && f.Name == x.Name && f.Power == provider.PowerOn {
			return provider.Step{Done: true}, nil
		}
		return m.Provider.Create(ctx, x)
	}}, "create leaves what is not ours"},
	{"starts and says Done at once", mutant{create: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		s, err := m.Provider.Create(ctx, x)
		s.Done = s.Done || strings.HasPrefix(s.Doing, "starting")
		return s, err
	}}, "settled and deleted"},
	{"forgets the config drive", mutant{create: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		if f, err := m.w.Read(ctx, x.Resource.ID); err == nil && f.Carries(x.Mark) && f.Power == provider.PowerOff && f.Locked == "" && !f.Drive {
			op, err := m.w.Start(ctx, x.Mark, x.Resource.ID)
			return provider.Step{Operation: op}, err
		}
		return m.Provider.Create(ctx, x)
	}}, "settled and deleted"},
	{"asks for the config drive in each call", mutant{create: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		content, err := x.ConfigDrive(ctx)
		if err != nil {
			return provider.Step{}, err
		}
		x.ConfigDrive = func(context.Context) ([]byte, error) { return content, nil }
		return m.Provider.Create(ctx, x)
	}}, "settled and deleted"},
	{"asks for the config drive twice", mutant{create: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		inner := x.ConfigDrive
		x.ConfigDrive = func(ctx context.Context) ([]byte, error) {
			if _, err := inner(ctx); err != nil {
				return nil, err
			}
			return inner(ctx)
		}
		return m.Provider.Create(ctx, x)
	}}, "settled and deleted"},
	{"boots from a drive that it wrote before", mutant{create: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		if written, err := m.w.ReadDrive(ctx, x.Resource.ID); err == nil && written {
			if f, err := m.w.Read(ctx, x.Resource.ID); err == nil && f.Carries(x.Mark) && f.Locked == "" && !f.Drive && f.Power == provider.PowerOff {
				if _, err := x.ConfigDrive(ctx); err != nil {
					return provider.Step{}, err
				}
				return provider.Step{}, m.w.Attach(ctx, x.Mark, x.Resource.ID)
			}
		}
		return m.Provider.Create(ctx, x)
	}}, "create makes one machine whichever"},
	{"answers that a machine is not found when it creates", mutant{create: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		s, err := m.Provider.Create(ctx, x)
		if errors.Is(err, provider.ErrQuota) {
			err = provider.ErrNotFound
		}
		return s, err
	}}, "no room"},
	{"creates with a mark that is not of the identity", mutant{create: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		x.Mark.Resource = x.Resource.ID
		return m.Provider.Create(ctx, x)
	}}, "create refuses"},
	{"finishes what a dead worker left", mutant{create: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		if f, err := m.w.Read(ctx, x.Resource.ID); err == nil && f.Incomplete {
			return provider.Step{Done: true}, nil
		}
		return m.Provider.Create(ctx, x)
	}}, "half made"},
	{"gives an error without a class", mutant{create: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		s, err := m.Provider.Create(ctx, x)
		if errors.Is(err, provider.ErrTransient) {
			err = errors.New("something went wrong")
		}
		return s, err
	}}, "class"},
	{"gives a step beside an error", mutant{create: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		s, err := m.Provider.Create(ctx, x)
		if err != nil {
			s.Doing = "trying"
		}
		return s, err
	}}, "create"},
	{"trusts an old list when it creates", mutant{create: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		all, err := m.w.Index(ctx)
		if err != nil {
			return provider.Step{}, err
		}
		if !slices.ContainsFunc(all, func(f provider.Found) bool { return f.Resource.ID == x.Resource.ID }) {
			op, err := m.w.Make(ctx, x.Mark, x.Resource, x.Name, x.Shape, x.Image.SHA256)
			return provider.Step{Operation: op}, err
		}
		return m.Provider.Create(ctx, x)
	}}, "old list"},

	{"deletes by number", mutant{delete: (*mutant).destroy}, "delete leaves what took the identity before"},
	{"deletes by name", mutant{delete: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		if f, err := m.w.Read(ctx, x.Resource.ID); err == nil && f.Name == x.Name && f.Locked == "" {
			return m.destroy(ctx, x)
		}
		return m.Provider.Delete(ctx, x)
	}}, "delete leaves what is not ours"},
	{"deletes whatever the fleet's mark is on", mutant{delete: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		return m.Provider.Delete(ctx, m.as(ctx, x, func(f provider.Found) bool { return f.Mark.Fleet == x.Mark.Fleet }))
	}}, "successor"},
	{"deletes a copy, whose mark is of another identity", mutant{delete: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		f, err := m.w.Read(ctx, x.Resource.ID)
		if err == nil && f.Mark != nil && f.Mark.Nonce == x.Mark.Nonce && f.Mark.Resource != x.Resource.ID {
			return m.destroy(ctx, x)
		}
		return m.Provider.Delete(ctx, x)
	}}, "delete leaves what is not ours"},
	{"compares no nonce when it deletes", mutant{delete: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		return m.Provider.Delete(ctx, m.as(ctx, x, func(f provider.Found) bool { return f.Mark.Machine == x.Mark.Machine && f.Mark.Fleet == x.Mark.Fleet }))
	}}, "delete leaves what is not ours"},
	{"deletes what lost its mark", mutant{delete: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		if f, err := m.w.Read(ctx, x.Resource.ID); err == nil && f.Mark == nil && !f.Incomplete && f.Name == x.Name {
			return m.destroy(ctx, x)
		}
		return m.Provider.Delete(ctx, x)
	}}, "edited away"},
	{"says Done once the delete has begun", mutant{delete: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		s, err := m.Provider.Delete(ctx, x)
		s.Done = s.Done || strings.HasPrefix(s.Doing, "deleting")
		return s, err
	}}, "delete is idempotent"},
	{"says Done when it may not look", mutant{delete: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		s, err := m.Provider.Delete(ctx, x)
		if errors.Is(err, provider.ErrDenied) {
			return provider.Step{Done: true}, nil
		}
		return s, err
	}}, "without the right to"},
	{"takes a lost answer for the end", mutant{delete: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		s, err := m.Provider.Delete(ctx, x)
		if errors.Is(err, provider.ErrUnknownOutcome) {
			return provider.Step{Done: true}, nil
		}
		return s, err
	}}, "delete leaves nothing whichever answer is lost"},
	{"trusts an old list when it deletes", mutant{delete: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		all, err := m.w.Index(ctx)
		if err != nil {
			return provider.Step{}, err
		}
		if !slices.ContainsFunc(all, func(f provider.Found) bool { return f.Resource.ID == x.Resource.ID }) {
			return provider.Step{Done: true}, nil
		}
		return m.Provider.Delete(ctx, x)
	}}, "delete is not misled"},
	{"leaves the drive of what is gone", mutant{delete: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		if _, err := m.w.Read(ctx, x.Resource.ID); errors.Is(err, provider.ErrNotFound) {
			return provider.Step{Done: true}, nil
		}
		return m.Provider.Delete(ctx, x)
	}}, "leaves no drive"},
	{"blanks the drive of an identity that is another's", mutant{delete: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		s, err := m.Provider.Delete(ctx, x)
		if errors.Is(err, provider.ErrForeign) {
			err = errors.Join(err, m.w.EraseDrive(ctx, x.Mark, x.Resource.ID))
		}
		return s, err
	}}, "successor"},
	{"waits for nothing when it deletes what is protected", mutant{delete: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		m.w.Protect(x.Resource.ID, false)
		return m.Provider.Delete(ctx, x)
	}}, "protected"},
	{"unlocks what is locked", mutant{delete: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		m.w.Lock(x.Resource.ID, "")
		return m.Provider.Delete(ctx, x)
	}}, "locked"},
	{"deletes its copies with a machine", mutant{delete: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		for _, t := range m.w.Things() {
			if t.Mark != nil && *t.Mark == x.Mark && t.Resource.ID != x.Resource.ID {
				x.Resource = t.Resource
				return m.destroy(ctx, x)
			}
		}
		return m.Provider.Delete(ctx, x)
	}}, "copies alone"},
	{"fails when there is nothing to delete", mutant{delete: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		if _, err := m.w.Read(ctx, x.Resource.ID); err != nil {
			return provider.Step{}, err
		}
		return m.Provider.Delete(ctx, x)
	}}, "delete is idempotent"},

	{"settles nothing", mutant{settle: func(*mutant, context.Context, provider.Machine) (provider.Step, error) {
		return provider.Step{Done: true}, nil
	}}, "settle takes"},
	{"detaches the drive and leaves it lying about", mutant{settle: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		s, err := m.Provider.Settle(ctx, x)
		s.Done = s.Done || strings.HasPrefix(s.Doing, "taking")
		return s, err
	}}, "settle takes"},
	{"settles by stopping the machine", mutant{settle: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		s, err := m.Provider.Settle(ctx, x)
		if s.Done {
			m.w.PowerOff(x.Resource.ID)
		}
		return s, err
	}}, "settled and deleted"},
	{"settles whatever has the number", mutant{settle: func(m *mutant, ctx context.Context, x provider.Machine) (provider.Step, error) {
		if err := m.w.Detach(ctx, x.Mark, x.Resource.ID); err != nil && !errors.Is(err, provider.ErrNotFound) {
			return provider.Step{}, err
		}
		return m.Provider.Settle(ctx, x)
	}}, "settle leaves what is not ours"},

	{"ignores what is taken", mutant{allocate: func(m *mutant, ctx context.Context, shape provider.Shape, _ []provider.Resource) (provider.Resource, error) {
		return m.Provider.Allocate(ctx, shape, nil)
	}}, "allocate avoids what is taken"},
	{"ignores what others hold", mutant{allocate: func(m *mutant, ctx context.Context, shape provider.Shape, taken []provider.Resource) (provider.Resource, error) {
		if len(taken) == 0 {
			return provider.Resource{ID: "9000", Zone: "z1"}, nil
		}
		return m.Provider.Allocate(ctx, shape, taken)
	}}, "what others hold"},
	{"reserves by making", mutant{allocate: func(m *mutant, ctx context.Context, shape provider.Shape, taken []provider.Resource) (provider.Resource, error) {
		r, err := m.Provider.Allocate(ctx, shape, taken)
		if err == nil {
			_, err = m.w.Make(ctx, provider.Mark{Fleet: "fleet", Machine: "mac_0", Resource: r.ID, Nonce: "0"}, r, "zoomies-0", shape, "")
		}
		return r, err
	}}, "allocate changes nothing"},
	{"says transient where there is no room", mutant{allocate: func(m *mutant, ctx context.Context, shape provider.Shape, taken []provider.Resource) (provider.Resource, error) {
		r, err := m.Provider.Allocate(ctx, shape, taken)
		if errors.Is(err, provider.ErrQuota) {
			err = provider.ErrTransient
		}
		return r, err
	}}, "allocate says that there is no room"},

	{"takes a refusal for absence", mutant{inspect: func(m *mutant, ctx context.Context, r provider.Resource) (provider.Found, error) {
		f, err := m.Provider.Inspect(ctx, r)
		if errors.Is(err, provider.ErrDenied) {
			err = provider.ErrNotFound
		}
		return f, err
	}}, "for a proof"},
	{"takes a lost answer for absence", mutant{inspect: func(m *mutant, ctx context.Context, r provider.Resource) (provider.Found, error) {
		f, err := m.Provider.Inspect(ctx, r)
		if errors.Is(err, provider.ErrTransient) {
			err = provider.ErrNotFound
		}
		return f, err
	}}, "for a proof"},
	{"inspects the list", mutant{inspect: func(m *mutant, ctx context.Context, r provider.Resource) (provider.Found, error) {
		all, err := m.w.Index(ctx)
		if err != nil {
			return provider.Found{}, err
		}
		for _, f := range all {
			if f.Resource.ID == r.ID {
				return f, nil
			}
		}
		return provider.Found{}, provider.ErrNotFound
	}}, "inspect is not misled"},
	{"looks only where the machine was", mutant{inspect: func(m *mutant, ctx context.Context, r provider.Resource) (provider.Found, error) {
		f, err := m.Provider.Inspect(ctx, r)
		if err == nil && r.Zone != f.Resource.Zone {
			return provider.Found{}, provider.ErrNotFound
		}
		return f, err
	}}, "has moved"},
	{"says that everything runs", mutant{inspect: func(m *mutant, ctx context.Context, r provider.Resource) (provider.Found, error) {
		f, err := m.Provider.Inspect(ctx, r)
		if err == nil {
			f.Power = provider.PowerOn
		}
		return f, err
	}}, "power itself off"},

	{"lists ours only", mutant{list: func(m *mutant, ctx context.Context) ([]provider.Found, error) {
		all, err := m.Provider.List(ctx)
		return slices.DeleteFunc(all, func(f provider.Found) bool { return f.Mark == nil }), err
	}}, "wearers"},
	{"lists no copies", mutant{list: func(m *mutant, ctx context.Context) ([]provider.Found, error) {
		all, err := m.Provider.List(ctx)
		return slices.DeleteFunc(all, func(f provider.Found) bool { return f.Mark != nil && f.Mark.Resource != f.Resource.ID }), err
	}}, "copies of ours"},
	{"lists everything", mutant{list: func(m *mutant, ctx context.Context) ([]provider.Found, error) { return m.w.Index(ctx) }}, "copies of ours"},
	{"lists nothing when it cannot ask", mutant{list: func(m *mutant, ctx context.Context) ([]provider.Found, error) {
		all, err := m.Provider.List(ctx)
		if errors.Is(err, provider.ErrTransient) {
			return nil, nil
		}
		return all, err
	}}, "list fails rather"},
	{"lists its range only", mutant{list: func(m *mutant, ctx context.Context) ([]provider.Found, error) {
		all, err := m.Provider.List(ctx)
		return slices.DeleteFunc(all, func(f provider.Found) bool { return !strings.HasPrefix(f.Resource.ID, "9") }), err
	}}, "outside of our range"},

	{"follows nothing", mutant{follow: func(*mutant, context.Context, string) (provider.Progress, error) {
		return provider.Progress{Ended: true}, nil
	}}, "nobody knows"},
	{"says that what failed is well", mutant{follow: func(m *mutant, ctx context.Context, op string) (provider.Progress, error) {
		p, err := m.Provider.Follow(ctx, op)
		p.Err = nil
		return p, err
	}}, "fails says so"},

	{"does not look at the image's hash", mutant{ensure: func(m *mutant, ctx context.Context, img provider.Image) (provider.Step, error) {
		s, err := m.Provider.EnsureImage(ctx, img)
		if errors.Is(err, provider.ErrInvalid) {
			op, err := m.w.Import(ctx, img.SHA256, img.Name)
			return provider.Step{Operation: op}, err
		}
		return s, err
	}}, "whose file is another"},
	{"needs the file of an image that is there", mutant{ensure: func(m *mutant, ctx context.Context, img provider.Image) (provider.Step, error) {
		if img.Open == nil {
			return provider.Step{}, provider.ErrConflict
		}
		return m.Provider.EnsureImage(ctx, img)
	}}, "needs no file"},
	{"prunes nothing", mutant{prune: func(*mutant, context.Context, provider.Image) (provider.Step, error) {
		return provider.Step{Done: true}, nil
	}}, "pruned"},
	{"prunes what it should keep", mutant{prune: func(m *mutant, ctx context.Context, _ provider.Image) (provider.Step, error) {
		return m.Provider.PruneImages(ctx, provider.Image{})
	}}, "pruned"},
	{"prunes every template", mutant{prune: func(m *mutant, ctx context.Context, keep provider.Image) (provider.Step, error) {
		s, err := m.Provider.PruneImages(ctx, keep)
		if s.Done {
			for _, t := range m.w.Things() {
				if t.Template && (t.Mark == nil || t.Mark.Fleet != "fleet") {
					op, err := m.w.Destroy(ctx, provider.Mark{}, t.Resource.ID)
					return provider.Step{Operation: op}, err
				}
			}
		}
		return s, err
	}}, "of others"},
	{"finds nothing wrong", mutant{check: func(*mutant, context.Context) []provider.Finding { return nil }}, "preflight"},
	{"finds everything wrong", mutant{check: func(*mutant, context.Context) []provider.Finding {
		return []provider.Finding{{Code: "x", Title: "x", Fix: "x", Severity: provider.SeverityError}}
	}}, "preflight has nothing"},
}

// TestTheSuiteCatches breaks one promise at a time: each has to be caught, by a case whose name says what was promised.
func TestTheSuiteCatches(t *testing.T) {
	t.Parallel()
	for _, tt := range mutants {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			failed, _ := providertest.Try(t.Context(), tt.want, harness(slow, func(w *fake.World) provider.Provider {
				m := tt.m
				m.Provider, m.w = w.Provider(), w
				return &m
			}))
			if len(failed) == 0 {
				t.Errorf("no case with %q in its name fails", tt.want)
			}
			for name, said := range failed {
				t.Logf("%s: %s", name, said)
			}
		})
	}
}

// What is not broken is not caught.
func TestTheSuiteSpares(t *testing.T) {
	t.Parallel()
	failed, skipped := providertest.Try(t.Context(), "", harness(slow, func(w *fake.World) provider.Provider { return &mutant{Provider: w.Provider(), w: w} }))
	if len(failed) > 0 || len(skipped) > 0 {
		t.Errorf("these fail: %v; these are skipped: %v", failed, skipped)
	}
}

// Without its knobs a world is spared what turns them, and told so.
func TestTheSuiteSkips(t *testing.T) {
	t.Parallel()
	full := harness(slow, func(w *fake.World) provider.Provider { return w.Provider() })
	failed, skipped := providertest.Try(t.Context(), "", providertest.Harness{New: func(t providertest.T) providertest.World {
		w := full.New(t)
		return providertest.World{
			Fleet: w.Fleet, Shape: w.Shape, Image: w.Image, Connect: w.Connect, Pass: w.Pass, Things: w.Things, Secrets: w.Secrets, Put: w.Put,
		}
	}})
	if len(failed) > 0 || len(skipped) < 20 || !strings.Contains(skipped["delete leaves what is protected"], "protect a machine") {
		t.Errorf("these fail: %v; these are skipped: %v", failed, skipped)
	}
}
