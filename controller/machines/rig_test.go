package machines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/machines/plan"
	"github.com/zoomies-fleet/zoomies/controller/metrics"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
	"github.com/zoomies-fleet/zoomies/provider"
	"github.com/zoomies-fleet/zoomies/provider/fake"
)

func TestMain(m *testing.M) {
	long()
	goleak.VerifyTestMain(m)
}

// tester is what both a test and a run of a property offer.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Context() context.Context
}

// rig is a fleet that has no host but what it rents: a real store, a world, guests that boot from the drive they were given, and a
// scheduler that places waiting jobs. Everything goes by the world's clock, and nothing happens but in tick.
type rig struct {
	t      tester
	st     *store.Store
	world  *fake.World
	pool   store.Pool
	row    store.Provider
	limits plan.Limits
	jobs   int  // that wait
	dead   bool // guests do not boot
	// reckless has the provider destroy by number, as those did that destroyed others' machines: only we are careful.
	reckless bool
	leased   error
	log      strings.Builder
	m        *Manager
	killIn   int // calls of a provider until the controller dies; 0 is never
	kill     context.CancelFunc
	ctx      context.Context // of the controller that runs now
	metrics  *metrics.Set
	bus      *events.Bus
}

type rigOptions struct {
	world  fake.Options
	change func(*store.Provider)
}

func newRig(t *testing.T, o rigOptions) *rig {
	t.Helper()
	r := &rig{t: t, world: fake.NewWorld(o.world)}
	r.st = storetest.OpenWith(t, store.Options{Now: r.world.Now})
	r.begin(o)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	return r
}

func (r *rig) begin(o rigOptions) {
	r.t.Helper()
	r.limits = plan.Limits{Enabled: true, MaxMachines: 20}
	r.metrics, r.bus = metrics.New(), &events.Bus{}
	in, err := r.st.CreateInstallation(r.t.Context(), store.Installation{Name: "acme", AppID: 7, InstallationID: 70, Account: "acme", AccountType: "Organization"})
	r.check(err)
	r.pool, err = r.st.CreatePool(r.t.Context(), store.Pool{Name: "linux", InstallationID: in.ID, Labels: []string{"zoomies"}, Backend: "podman",
		Image: "localhost/runner:test", Max: 100, Enabled: true, Ephemeral: true})
	r.check(err)
	row := store.Provider{Name: "lab", Kind: "fake", Config: "{}", Enabled: true, MaxMachines: 10, IdleTimeout: 10 * time.Minute,
		Shapes: []store.MachineShape{{Name: "small", CPUs: 4, MemoryMB: 8192, DiskGB: 20}}}
	if o.change != nil {
		o.change(&row)
	}
	r.row, err = r.st.CreateProvider(r.t.Context(), row)
	r.check(err)
	r.start()
}

func (r *rig) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// start starts a controller, over the store and the world as they are.
func (r *rig) start() {
	if r.kill != nil {
		r.kill()
	}
	r.ctx, r.kill = context.WithCancel(context.Background())
	r.m = New(Options{
		Store: r.st, Fleet: "fleet", Now: r.world.Now, Bus: r.bus, Metrics: r.metrics,
		Connect: func(context.Context, store.Provider) (provider.Provider, error) {
			return deadly{r.world.Provider(), r}, nil
		},
		Drive: func(_ context.Context, g Guest) ([]byte, error) {
			return json.Marshal(map[string]string{"name": g.Machine.Name, "token": g.Token})
		},
		Demand: r.demand, Lease: func(context.Context) error { return r.leased },
		Limits: func() (plan.Limits, time.Duration) { return r.limits, 0 },
		Lose:   r.lose,
		Logger: slog.New(slog.NewTextHandler(&r.log, nil)),
	})
}

// deadly is a provider whose controller may die after any of its calls, before it has heard the answer.
type deadly struct {
	provider.Provider
	r *rig
}

func (d deadly) called() {
	if d.r.killIn > 0 {
		if d.r.killIn--; d.r.killIn == 0 {
			d.r.kill()
		}
	}
}

func (d deadly) Allocate(ctx context.Context, s provider.Shape, taken []provider.Resource) (provider.Resource, error) {
	defer d.called()
	return d.Provider.Allocate(ctx, s, taken)
}

func (d deadly) Create(ctx context.Context, m provider.Machine) (provider.Step, error) {
	defer d.called()
	return d.Provider.Create(ctx, m)
}

func (d deadly) Delete(ctx context.Context, m provider.Machine) (provider.Step, error) {
	defer d.called()
	if d.r.reckless {
		if x, there := d.r.world.Thing(m.Resource.ID); there && x.Power == provider.PowerOn {
			op, err := d.r.world.Stop(ctx, m.Mark, m.Resource.ID)
			return provider.Step{Operation: op}, err
		} else if there {
			op, err := d.r.world.Destroy(ctx, m.Mark, m.Resource.ID)
			return provider.Step{Operation: op}, err
		}
	}
	return d.Provider.Delete(ctx, m)
}

func (d deadly) Settle(ctx context.Context, m provider.Machine) (provider.Step, error) {
	defer d.called()
	return d.Provider.Settle(ctx, m)
}

func (d deadly) Inspect(ctx context.Context, x provider.Resource) (provider.Found, error) {
	defer d.called()
	return d.Provider.Inspect(ctx, x)
}

func (d deadly) List(ctx context.Context) ([]provider.Found, error) {
	defer d.called()
	return d.Provider.List(ctx)
}

// free are the slots of hosts that take runners.
func (r *rig) free(ctx context.Context) (map[string]int, []string, error) {
	hosts, err := r.st.Hosts(ctx)
	if err != nil {
		return nil, nil, err
	}
	live, err := r.st.Runners(ctx, store.RunnerFilter{Live: true})
	if err != nil {
		return nil, nil, err
	}
	free, order := map[string]int{}, []string{}
	for _, h := range hosts {
		if !h.Cordoned && h.LostAt.IsZero() {
			free[h.ID] = h.Capacity
			order = append(order, h.ID)
		}
	}
	for _, x := range live {
		free[x.HostID]--
	}
	return free, order, nil
}

func (r *rig) demand(ctx context.Context) (Demand, error) {
	free, order, err := r.free(ctx)
	d := Demand{Coming: map[string]int{}}
	waiting := r.jobs
	for _, id := range order {
		n := min(waiting, max(free[id], 0))
		d.Coming[id] = n
		waiting -= n
	}
	if waiting > 0 {
		d.Needs = []plan.Need{{PoolID: r.pool.ID, Pool: r.pool.Name, Slots: waiting, Backend: "podman", Since: r.world.Now()}}
	}
	return d, err
}

// place gives waiting jobs to hosts with room.
func (r *rig) place() {
	r.t.Helper()
	free, order, err := r.free(r.t.Context())
	r.check(err)
	for _, id := range order {
		for ; r.jobs > 0 && free[id] > 0; free[id]-- {
			rs := []store.Runner{{Name: store.NewID("zoomies-"), PoolID: r.pool.ID, HostID: id, InstallationID: r.pool.InstallationID, Backend: "podman", Ephemeral: true}}
			r.check(r.st.CreateRunners(r.t.Context(), rs))
			for _, to := range []store.RunnerState{store.RunnerRegistering, store.RunnerBusy} {
				_, _, err := r.st.TransitionRunner(r.t.Context(), rs[0].ID, to, store.Change{})
				r.check(err)
			}
			r.jobs--
		}
	}
}

// finish ends n runners, all when n is negative.
func (r *rig) finish(n int) {
	r.t.Helper()
	live, err := r.st.Runners(r.t.Context(), store.RunnerFilter{Live: true})
	r.check(err)
	for i, x := range live {
		if i == n {
			return
		}
		_, _, err := r.st.TransitionRunner(r.t.Context(), x.ID, store.RunnerRemoved, store.Change{})
		r.check(err)
	}
}

// lose fails the runners of a host whose machine is gone, as the controller does.
func (r *rig) lose(ctx context.Context, hostID, why string) error {
	live, err := r.st.Runners(ctx, store.RunnerFilter{HostID: hostID, Live: true})
	for _, x := range live {
		if _, _, err := r.st.TransitionRunner(ctx, x.ID, store.RunnerFailed, store.Change{Message: why}); err != nil {
			return err
		}
	}
	return err
}

// boot has every guest that is powered on join with what its drive says.
func (r *rig) boot() {
	r.t.Helper()
	if r.dead {
		return
	}
	for _, x := range r.world.Things() {
		if x.Power == provider.PowerOn && len(x.Booted) > 0 {
			_ = r.join(x.Booted, x.Shape.CPUs)
		}
	}
}

func (r *rig) join(drive []byte, slots int) error {
	var d struct{ Name, Token string }
	if err := json.Unmarshal(drive, &d); err != nil {
		return err
	}
	_, _, err := r.st.JoinHost(r.t.Context(), auth.HashToken(d.Token), d.Name, "agent token of "+d.Token,
		store.HostUpdate{OS: "linux", Arch: "amd64", CPUs: float64(slots), Capacity: slots, Backends: []store.HostBackend{{Name: "podman"}}})
	return err
}

// work does everything that is due now, in order. Steps that fail are tried again.
func (r *rig) work() {
	r.t.Helper()
	for range 20 {
		list, err := r.m.jobs(r.ctx)
		if errors.Is(err, context.Canceled) {
			return
		}
		r.check(err)
		did := false
		for _, j := range list {
			ran, _ := r.m.crew.run(r.ctx, j)
			did = did || ran
		}
		if !did {
			break
		}
	}
}

// tick is two seconds in the life of the fleet.
func (r *rig) tick() {
	r.t.Helper()
	if _, err := r.m.Pass(r.ctx); err != nil && r.ctx.Err() == nil {
		r.t.Fatal(err)
	}
	r.work()
	r.boot()
	r.place()
	r.world.Advance(2 * time.Second)
}

// until ticks until something is so, for an hour of the world's at most.
func (r *rig) until(what string, is func() bool) {
	r.t.Helper()
	began := r.world.Now()
	for !is() {
		r.tick()
		if r.world.Now().Sub(began) > 2*time.Hour {
			r.t.Fatalf("it never was so that %s; machines are %s", what, r.describe())
		}
	}
}

func (r *rig) machines() []store.Machine {
	r.t.Helper()
	list, err := r.st.Machines(r.t.Context(), store.MachineFilter{})
	r.check(err)
	return list
}

func (r *rig) describe() string {
	var lines []string
	for _, m := range r.machines() {
		lines = append(lines, fmt.Sprintf("%s %s (%s): %s; %s", m.Name, m.State, m.ResourceID, m.Message, m.Doing))
	}
	return strings.Join(lines, "\n")
}

// in counts the machines in states; all that are not deleted when none is named.
func (r *rig) in(states ...store.MachineState) int {
	n := 0
	for _, m := range r.machines() {
		if slices.Contains(states, m.State) || len(states) == 0 && m.State != store.MachineDeleted {
			n++
		}
	}
	return n
}

// only is the one machine there is.
func (r *rig) only() store.Machine {
	r.t.Helper()
	list := r.machines()
	if len(list) != 1 {
		r.t.Fatalf("there are %d machines: %s", len(list), r.describe())
	}
	return list[0]
}

// one brings a fleet with one job to where its machine is in a state.
func (r *rig) one(state store.MachineState) store.Machine {
	r.t.Helper()
	r.jobs = 1
	r.until("the machine is "+string(state), func() bool { return r.in(state) == 1 })
	return r.only()
}

// untouched fails when anything that was not ours was ever changed.
func (r *rig) untouched() {
	r.t.Helper()
	if got := r.world.ForeignTouched(); len(got) > 0 {
		r.t.Fatalf("it touched what is not its own: %+v\n%s", got, r.log.String())
	}
}

// was says whether a machine ever came to a state, with a reason.
func (r *rig) was(id string, state store.MachineState) bool {
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, fmt.Sprintf("msg=\"machine %s\" machine=%s ", state, id)) {
			return !strings.Contains(line, "message=\"\"")
		}
	}
	return false
}
