package machines

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
	"github.com/zoomies-fleet/zoomies/provider"
	"github.com/zoomies-fleet/zoomies/provider/fake"
)

// Whatever goes wrong, in any order (clones that fail, numbers that are taken, people at the console, lost answers, a controller that
// dies between any two steps, a database that was restored): nothing that is not ours is ever changed, no machine is made twice, no
// limit is exceeded, nothing quarantined or fenced is touched, and in the end everything of ours is gone, quarantined, or shown to an
// operator with a reason.
func TestAnyInterleavingKeepsThePromises(t *testing.T) {
	t.Parallel()
	for shard := range shards {
		t.Run(strconv.Itoa(shard), func(t *testing.T) {
			t.Parallel()
			keys, err := secrets.LoadOrCreate(filepath.Join(t.TempDir(), "keys"))
			if err != nil {
				t.Fatal(err)
			}
			base := storetest.Dir(t)
			rapid.Check(t, func(rt *rapid.T) {
				dir, err := os.MkdirTemp(base, "run-*")
				if err != nil {
					rt.Fatal(err)
				}
				defer func() { _ = os.RemoveAll(dir) }()
				interleave(rt, filepath.Join(dir, "zoomies.db"), keys)
			})
		})
	}
}

// story is one run of the property.
type story struct {
	*rig
	t       *rapid.T
	checked int // audit entries that were looked at
	made    map[string]string
}

func interleave(rt *rapid.T, path string, keys *secrets.Keyring) {
	world := fake.NewWorld(fake.Options{First: 9000, Last: 9019, Seed: rapid.Uint64().Draw(rt, "seed"),
		Lag:  rapid.SampledFrom([]time.Duration{0, 30 * time.Second}).Draw(rt, "lag"),
		Took: map[fake.Request]time.Duration{fake.Make: rapid.SampledFrom([]time.Duration{0, 10 * time.Second, 5 * time.Minute}).Draw(rt, "clone")}})
	st, err := store.Open(rt.Context(), store.Options{Path: path, Keys: keys, Now: world.Now, Logger: quiet})
	if err != nil {
		rt.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	s := &story{rig: &rig{t: rt, world: world, st: st}, t: rt, made: map[string]string{}}
	s.reckless = rapid.Bool().Draw(rt, "reckless")
	s.begin(rigOptions{change: func(p *store.Provider) { p.MaxMachines, p.IdleTimeout = 4, 2*time.Minute }})
	s.limits.MaxMachines = 5
	defer func() {
		if rt.Failed() {
			rt.Log(s.log.String())
		}
	}()
	acts := s.acts()
	names := make([]string, 0, len(acts))
	for name := range acts {
		names = append(names, name)
	}
	slices.Sort(names)
	names = append(names, "tick", "tick", "tick", "tick", "tick", "jobs", "die") // more often
	for range rapid.IntRange(5, 40).Draw(rt, "length") {
		name := rapid.SampledFrom(names).Draw(rt, "act")
		before := s.states()
		acts[name]()
		if s.ctx.Err() != nil {
			s.start()
		}
		s.judge(name, before)
	}
	s.end()
}

// moment is what must hold across an act.
type moment struct {
	states map[string]store.MachineState
	fenced bool
	paused bool
	rows   int
}

func (s *story) states() moment {
	m := moment{states: map[string]store.MachineState{}}
	for _, x := range s.machines() {
		m.states[x.ID] = x.State
		m.rows++
	}
	p, err := s.st.Provider(s.t.Context(), s.row.ID)
	s.check(err)
	m.fenced, m.paused = !p.FencedAt.IsZero(), !p.PausedAt.IsZero()
	return m
}

// judge is asked after every act.
func (s *story) judge(act string, before moment) {
	s.untouched()
	now := s.states()
	audit := s.world.Audit()
	for _, c := range audit[s.checked:] {
		id := c.By.Machine
		if before.fenced && now.fenced {
			s.t.Fatalf("%s: while fenced it did %+v", act, c)
		}
		if before.states[id] == store.MachineQuarantined && now.states[id] == store.MachineQuarantined {
			s.t.Fatalf("%s: a quarantined machine was touched: %+v", act, c)
		}
		if _, has := now.states[id]; !has {
			s.t.Fatalf("%s: something without a row was touched: %+v", act, c)
		}
		if c.Request == fake.Make {
			if was, ok := s.made[id]; ok && was != c.ID {
				s.t.Fatalf("%s: machine %s was made as %s and as %s", act, id, was, c.ID)
			}
			s.made[id] = c.ID
		}
		if c.Request == fake.Destroy && before.states[id] != store.MachineDeleting && now.states[id] != store.MachineDeleting && now.states[id] != store.MachineDeleted {
			s.t.Fatalf("%s: a machine that is %s was destroyed", act, now.states[id])
		}
	}
	s.checked = len(audit)
	if before.paused && now.paused && now.rows > before.rows && act != "orphan" {
		s.t.Fatalf("%s: while paused a machine was planned", act)
	}
	live := 0
	for id, state := range now.states {
		if state != store.MachineDeleted {
			live++
		}
		if was := before.states[id]; was == store.MachineQuarantined && state != was && act != "release" {
			s.t.Fatalf("%s: machine %s left quarantine for %s", act, id, state)
		}
	}
	if act != "orphan" && live > 4 && live > len(before.states) {
		s.t.Fatalf("%s: there are %d machines", act, live)
	}
	carried := map[string]int{}
	for _, x := range s.world.Things() {
		if x.Mark != nil && x.Mark.Resource == x.Resource.ID {
			if carried[x.Mark.Machine]++; carried[x.Mark.Machine] > 1 {
				s.t.Fatalf("%s: machine %s is there twice", act, x.Mark.Machine)
			}
		}
	}
}

// end mends the world, takes all work away, and waits until nothing changes any more.
func (s *story) end() {
	ctx := s.t.Context()
	s.world.Mend()
	s.world.Fill(false)
	s.dead, s.jobs, s.killIn = false, 0, 0
	s.start()
	s.check(s.st.ResumeProvider(ctx, s.row.ID))
	for _, x := range s.world.Things() {
		s.world.Protect(x.Resource.ID, false)
	}
	for i := 0; ; i++ {
		before := s.states()
		s.finish(-1)
		s.tick()
		s.world.Advance(time.Minute)
		s.judge("end", before)
		if s.in() == s.in(store.MachineQuarantined) && i > 3 {
			break
		}
		if i > 200 {
			s.t.Fatalf("it never comes to rest: %s", s.describe())
		}
	}
	s.world.Advance(time.Hour)
	s.check(s.m.Sweep(s.ctx, s.row.ID))
	rows := map[string]store.Machine{}
	for _, m := range s.machines() {
		rows[m.ID] = m
	}
	for _, x := range s.world.Things() {
		if x.Mark == nil || x.Mark.Fleet != "fleet" {
			continue
		}
		shown := slices.ContainsFunc(s.m.Reviews(), func(r Review) bool { return r.Found.Resource.ID == x.Resource.ID && r.Why != "" })
		m, has := rows[x.Mark.Machine]
		if explained := has && m.State == store.MachineQuarantined && m.ResourceID == x.Resource.ID; !explained && !shown {
			s.t.Fatalf("nothing explains %+v (%s)", x, m.State)
		}
	}
}

// acts are everything that can happen.
func (s *story) acts() map[string]func() {
	ctx := s.t.Context()
	some := func(states ...store.MachineState) (store.Machine, bool) {
		var list []store.Machine
		for _, m := range s.machines() {
			if len(states) == 0 && m.ResourceID != "" || slices.Contains(states, m.State) {
				list = append(list, m)
			}
		}
		if len(list) == 0 {
			return store.Machine{}, false
		}
		return list[rapid.IntRange(0, len(list)-1).Draw(s.t, "machine")], true
	}
	thing := func() string {
		all := s.world.Things()
		if len(all) == 0 || rapid.Bool().Draw(s.t, "anywhere") {
			return strconv.Itoa(rapid.IntRange(9000, 9019).Draw(s.t, "id"))
		}
		return all[rapid.IntRange(0, len(all)-1).Draw(s.t, "thing")].Resource.ID
	}
	request := func() fake.Request { return rapid.SampledFrom(fake.Mutations[:9]).Draw(s.t, "request") }
	return map[string]func(){
		"tick": s.tick,
		"pass": func() { _, _ = s.m.Pass(s.ctx) },
		"work": func() { s.work() },
		"die": func() { // after so many calls from now
			s.killIn = rapid.IntRange(1, 12).Draw(s.t, "calls")
			s.tick()
			s.killIn = 0
			s.kill()
		},
		"sweep":  func() { _ = s.m.Sweep(s.ctx, s.row.ID) },
		"jobs":   func() { s.jobs = rapid.IntRange(0, 20).Draw(s.t, "jobs") },
		"finish": func() { s.finish(rapid.IntRange(1, 8).Draw(s.t, "runners")) },
		"time": func() {
			s.world.Advance(rapid.SampledFrom([]time.Duration{10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 25 * time.Hour}).Draw(s.t, "time"))
		},
		"boot":        s.boot,
		"guests die":  func() { s.dead = !s.dead },
		"lost before": func() { s.world.Inject(request(), fake.LostBefore) },
		"lost after":  func() { s.world.Inject(request(), fake.LostAfter) },
		"not sent":    func() { s.world.Inject(request(), fake.NotSent) },
		"fails": func() {
			s.world.FailNext(request(), rapid.SampledFrom([]error{provider.ErrLocked, provider.ErrQuota, provider.ErrUnknownOutcome}).Draw(s.t, "class"))
		},
		"worker dies": func() { s.world.DieNext(request()) },
		"chaos": func() {
			s.world.Chaos(fake.Chaos{NotSent: 0.05, LostBefore: 0.05, LostAfter: 0.05, Locked: 0.05, Fail: 0.05, Die: 0.01})
		},
		"mend":   s.world.Mend,
		"deny":   func() { s.world.Deny(request()) },
		"denied": func() { s.world.Deny() },
		"freeze": s.world.Freeze,
		"forget": s.world.Forget,
		"thief":  func() { s.world.Replace(thing(), nil) },
		"another": func() {
			s.world.Replace(thing(), &provider.Mark{Fleet: "other", Machine: "mac_x", Resource: "9001", Nonce: "n"})
		},
		"copy":    func() { s.world.Copy(thing(), thing()) },
		"vanish":  func() { s.world.Vanish(thing()) },
		"unmark":  func() { s.world.Unmark(thing()) },
		"off":     func() { s.world.PowerOff(thing()) },
		"on":      func() { s.world.PowerOn(thing()) },
		"protect": func() { s.world.Protect(thing(), rapid.Bool().Draw(s.t, "on")) },
		"lock":    func() { s.world.Lock(thing(), rapid.SampledFrom([]string{"", "backup"}).Draw(s.t, "lock")) },
		"limit":   func() { s.world.Fill(rapid.Bool().Draw(s.t, "full")) },
		"drain": func() {
			if m, ok := some(store.MachineReady); ok {
				_, _ = s.m.Drain(ctx, m.ID, "ada")
			}
		},
		"delete": func() {
			if m, ok := some(); ok {
				_, _ = s.m.Delete(ctx, m.ID, "ada")
			}
		},
		"release": func() {
			if m, ok := some(store.MachineQuarantined, store.MachineDeleting); ok {
				_, _ = s.m.Release(ctx, m.ID, "ada")
			}
		},
		"orphan": func() {
			for _, r := range s.m.Reviews() {
				_, _ = s.m.DeleteOrphan(ctx, s.row.ID, r.Found.Resource.ID, "ada")
			}
		},
		"delete host": func() {
			if m, ok := some(store.MachineReady, store.MachineDraining); ok {
				_ = s.st.DeleteHost(ctx, m.HostID)
			}
		},
		"lose host": func() {
			if m, ok := some(store.MachineReady, store.MachineDraining); ok {
				_ = s.st.MarkHostLost(ctx, m.HostID)
				_ = s.lose(ctx, m.HostID, "lost")
			}
		},
		"pause":  func() { s.check(s.st.PauseProvider(ctx, s.row.ID, "ada", "maintenance")) },
		"resume": func() { s.check(s.st.ResumeProvider(ctx, s.row.ID)) },
		"fence":  func() { s.check(s.st.FenceProviders(ctx, "restored")) },
	}
}
