package fake_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zoomies-fleet/zoomies/provider"
	"github.com/zoomies-fleet/zoomies/provider/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var shape = provider.Shape{Name: "small", CPUs: 2, MemoryMB: 2048, DiskGB: 10}

func machine(id, name string) provider.Machine {
	return provider.Machine{
		Mark:     provider.Mark{Fleet: "fleet", Machine: name, Resource: id, Nonce: "n-" + name},
		Resource: provider.Resource{ID: id, Zone: "z1"}, Name: "zoomies-" + id, Shape: shape,
		ConfigDrive: func(context.Context) ([]byte, error) { return []byte("secret of " + name), nil },
	}
}

// finish repeats a call until it is Done, as the controller does.
func finish(t *testing.T, w *fake.World, m *provider.Machine, call func(context.Context, provider.Machine) (provider.Step, error)) error {
	t.Helper()
	for range 100 {
		s, err := call(t.Context(), *m)
		if err != nil || s.Done {
			return err
		}
		m.Operation = s.Operation
		if d, ok := w.Next(); ok {
			w.Advance(d)
		}
	}
	t.Fatal("it is never done")
	return nil
}

func TestALife(t *testing.T) {
	t.Parallel()
	w := fake.NewWorld(fake.Options{Took: map[fake.Request]time.Duration{fake.Make: time.Minute, fake.Stop: time.Second}})
	p := w.Provider()
	m := machine("9000", "mac_1")
	if err := finish(t, w, &m, p.Create); err != nil {
		t.Fatal(err)
	}
	if got, _ := w.Thing("9000"); got.Power != provider.PowerOn || string(got.Booted) != "secret of mac_1" || !got.Found.Carries(m.Mark) {
		t.Errorf("made %+v", got)
	}
	if err := finish(t, w, &m, p.Settle); err != nil || len(w.Drives()) > 0 {
		t.Errorf("settled with %v, left %v", err, w.Drives())
	}
	if err := finish(t, w, &m, p.Delete); err != nil || len(w.Things()) > 0 {
		t.Errorf("deleted with %v, left %v", err, w.Things())
	}
	if passed := w.Now().Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); passed != time.Minute+time.Second {
		t.Errorf("%s have passed", passed)
	}
	if got := w.ForeignTouched(); len(got) > 0 {
		t.Errorf("touched %+v", got)
	}
}

func TestTheAuditSeesWhatIsForeign(t *testing.T) {
	t.Parallel()
	mark := machine("9001", "mac_1").Mark
	for name, put := range map[string]func(w *fake.World){
		"a stranger's": func(w *fake.World) { w.Put(provider.Found{Resource: provider.Resource{ID: "9001"}}) },
		"another machine's": func(w *fake.World) {
			other := machine("9001", "mac_2").Mark
			w.Put(provider.Found{Resource: provider.Resource{ID: "9001"}, Mark: &other})
		},
		"a copy": func(w *fake.World) {
			original := machine("9000", "mac_1").Mark
			w.Put(provider.Found{Resource: provider.Resource{ID: "9000"}, Mark: &original})
			w.Copy("9000", "9001")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := fake.NewWorld(fake.Options{})
			put(w)
			for kind, touch := range map[fake.Request]func() error{
				fake.WriteDrive: func() error { return w.WriteDrive(t.Context(), mark, "9001", []byte("x")) },
				fake.EraseDrive: func() error { return w.EraseDrive(t.Context(), mark, "9001") },
			} {
				if err := touch(); err != nil {
					t.Errorf("%s: %v", kind, err)
				}
			}
			if _, err := w.Destroy(t.Context(), mark, "9001"); err != nil {
				t.Error(err)
			}
			if got := w.ForeignTouched(); len(got) < 2 {
				t.Errorf("the audit shows %+v", got)
			}
		})
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	mark := machine("9000", "mac_1").Mark
	make9000 := func(w *fake.World) error {
		_, err := w.Make(ctx, mark, provider.Resource{ID: "9000"}, "zoomies-1", shape, "")
		return err
	}
	for _, tt := range []struct {
		name  string
		fault fake.Fault
		class error
		there bool
	}{
		{"lost before the effect", fake.LostBefore, provider.ErrUnknownOutcome, false},
		{"lost after the effect", fake.LostAfter, provider.ErrUnknownOutcome, true},
		{"not sent", fake.NotSent, provider.ErrTransient, false},
		{"slow", fake.Fault{Delay: time.Hour}, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := fake.NewWorld(fake.Options{})
			began := w.Now()
			w.Inject(fake.Make, tt.fault)
			if err := make9000(w); !errors.Is(provider.Class(err), tt.class) {
				t.Errorf("answered %v", err)
			}
			if _, there := w.Thing("9000"); there != tt.there {
				t.Errorf("it is there: %v", there)
			}
			if got := w.Now().Sub(began); got != tt.fault.Delay {
				t.Errorf("it took %s", got)
			}
		})
	}
	t.Run("a dead worker leaves half a thing", func(t *testing.T) {
		t.Parallel()
		w := fake.NewWorld(fake.Options{})
		w.DieNext(fake.Make)
		if err := make9000(w); err != nil {
			t.Fatal(err)
		}
		w.Advance(time.Hour)
		f, err := w.Provider().Inspect(ctx, provider.Resource{ID: "9000"})
		if err != nil || !f.Incomplete || f.Locked == "" || f.Mark != nil {
			t.Errorf("found %+v, %v", f, err)
		}
	})
	t.Run("a list that is late", func(t *testing.T) {
		t.Parallel()
		w := fake.NewWorld(fake.Options{Lag: time.Minute})
		if all, err := w.Provider().List(ctx); err != nil || len(all) > 0 {
			t.Errorf("%v, %v", all, err)
		}
		if err := make9000(w); err != nil {
			t.Fatal(err)
		}
		if all, err := w.Provider().List(ctx); err != nil || len(all) > 0 {
			t.Errorf("at once: %v, %v", all, err)
		}
		w.Advance(time.Minute)
		if all, err := w.Provider().List(ctx); err != nil || len(all) != 1 {
			t.Errorf("a minute later: %v, %v", all, err)
		}
	})
	t.Run("chaos repeats itself", func(t *testing.T) {
		t.Parallel()
		run := func(seed uint64) (out []error) {
			w := fake.NewWorld(fake.Options{Seed: seed})
			w.Chaos(fake.Chaos{NotSent: 0.2, LostBefore: 0.2, LostAfter: 0.2})
			for range 50 {
				_, err := w.Read(ctx, "1")
				out = append(out, provider.Class(err))
			}
			return out
		}
		same, other := 0, 0
		a, b, c := run(1), run(1), run(2)
		for i := range a {
			if errors.Is(a[i], b[i]) {
				same++
			}
			if errors.Is(a[i], c[i]) {
				other++
			}
		}
		if same != len(a) || other == len(a) {
			t.Errorf("%d and %d of %d are the same", same, other, len(a))
		}
	})
}

// A call that is held ends with its context, and its outcome is not known.
func TestHold(t *testing.T) {
	t.Parallel()
	w := fake.NewWorld(fake.Options{})
	w.Inject(fake.Make, fake.Fault{Hold: make(chan struct{})})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := w.Provider().Create(ctx, machine("9000", "mac_1"))
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || provider.Class(err) == nil {
		t.Errorf("ended with %v", err)
	}
}

// Whatever goes wrong by chance, a machine is made once and nothing is left of it.
func TestChaos(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		w := fake.NewWorld(fake.Options{Seed: seed, Lag: 10 * time.Second, Took: map[fake.Request]time.Duration{fake.Make: 7 * time.Second, fake.Destroy: 3 * time.Second}})
		w.Put(provider.Found{Resource: provider.Resource{ID: "9001"}, Name: "mine"})
		w.Chaos(fake.Chaos{NotSent: 0.1, LostBefore: 0.1, LostAfter: 0.2, Locked: 0.1, Fail: 0.2})
		m := machine("9000", "mac_1")
		do := func(what string, call func(*fake.Provider) (provider.Step, error)) {
			for range 1000 {
				s, err := call(w.Provider())
				if err == nil && s.Done {
					return
				}
				if class := provider.Class(err); err != nil && !errors.Is(class, provider.ErrUnknownOutcome) && !errors.Is(class, provider.ErrTransient) && !errors.Is(class, provider.ErrLocked) {
					t.Fatalf("seed %d: %s: %v", seed, what, err)
				}
				m.Operation = s.Operation
				w.Advance(2 * time.Second)
			}
			t.Fatalf("seed %d: %s is never done", seed, what)
		}
		do("create", func(p *fake.Provider) (provider.Step, error) { return p.Create(t.Context(), m) })
		if got, _ := w.Thing("9000"); !got.Carries(m.Mark) || got.Power != provider.PowerOn || len(w.Things()) != 2 {
			t.Errorf("seed %d: made %+v of %+v", seed, got, w.Things())
		}
		do("settle", func(p *fake.Provider) (provider.Step, error) { return p.Settle(t.Context(), m) })
		do("delete", func(p *fake.Provider) (provider.Step, error) { return p.Delete(t.Context(), m) })
		if len(w.Things()) != 1 || len(w.Drives()) > 0 || len(w.ForeignTouched()) > 0 {
			t.Errorf("seed %d: left %+v and %v, touched %+v", seed, w.Things(), w.Drives(), w.ForeignTouched())
		}
	}
}
