package controller

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/machines"
	"github.com/zoomies-fleet/zoomies/controller/metrics"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/provider"
	"github.com/zoomies-fleet/zoomies/provider/fake"
)

// A fleet with no host at all: jobs that wait have machines rented, whose agents join with what their drives say, and run the jobs.
func TestAFleetWithoutHostsRentsThem(t *testing.T) {
	t.Parallel()
	var world *fake.World
	r := newRig(t, rigOptions{
		settings: func(s *Settings) { s.Machines.Enabled, s.Machines.MaxMachines = true, 5 },
		machines: &Machines{
			Connect: func(context.Context, store.Provider) (provider.Provider, error) { return world.Provider(), nil },
			Drive: func(_ context.Context, g machines.Guest) ([]byte, error) {
				return json.Marshal(map[string]string{"name": g.Machine.Name, "token": g.Token})
			},
		},
	})
	world = fake.NewWorld(fake.Options{Now: r.clock.now, Fleet: r.c().fleet})
	in := r.install("acme", "acme/widgets")
	r.pool(in, func(p *store.Pool) { p.Max = 20 })
	r.gh.SetWebhookURL(r.web.URL + "/webhooks/github")
	if _, err := r.st.CreateProvider(t.Context(), store.Provider{Name: "lab", Kind: "fake", Config: "{}", Enabled: true, MaxMachines: 5,
		Shapes: []store.MachineShape{{Name: "small", CPUs: 4, MemoryMB: 8192}}}); err != nil {
		t.Fatal(err)
	}
	var jobs []int64
	for range 6 {
		jobs = append(jobs, r.job("ok"))
	}
	booted := map[string]bool{}
	done := func() bool {
		for _, x := range world.Things() {
			var d struct{ Name, Token string }
			if booted[x.Resource.ID] || len(x.Booted) == 0 || json.Unmarshal(x.Booted, &d) != nil {
				continue
			}
			booted[x.Resource.ID] = true
			r.guest(d.Name, d.Token, 4)
		}
		r.c().rented.Wake()
		js, err := r.st.Jobs(t.Context(), store.JobFilter{States: []store.JobState{store.JobCompleted}})
		return err == nil && len(js) == len(jobs)
	}
	look, deadline := time.NewTicker(50*time.Millisecond), time.After(3*patience)
	defer look.Stop()
	for !done() {
		select {
		case <-look.C:
			r.clock.advance(time.Second)
		case <-deadline:
			t.Fatalf("the jobs are not done; %d machines have booted", len(booted))
		}
	}
	if len(booted) != 2 {
		t.Errorf("%d machines of four slots for six jobs", len(booted))
	}
	r.c().metrics.Inc(metrics.MachinesFailed, "lab") // none did
	_, page := r.get("/metrics")
	for name := range rented {
		if !strings.Contains(page, "\n"+name) {
			t.Errorf("%s is not shown", name)
		}
	}
	ms, err := r.st.Machines(t.Context(), store.MachineFilter{})
	if err != nil || len(ms) != 2 || ms[0].HostID == "" || ms[0].PoolID == "" || ms[0].DemandAt.IsZero() {
		t.Errorf("the rows are %+v (%v)", ms, err)
	}
}
