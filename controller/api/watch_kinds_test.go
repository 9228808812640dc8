package api_test

import (
	"context"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Every kind of object is told as its own route shows it, and to those who may call that.
func TestEveryKindOfObjectIsFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	in, _ := r.neighbour()
	r.work()
	runners, err := r.store.Runners(ctx, store.RunnerFilter{})
	if err != nil {
		t.Fatal(err)
	}
	jobs, err := r.store.Jobs(ctx, store.JobFilter{})
	if err != nil {
		t.Fatal(err)
	}
	ada, other := r.as("ada", over(auth.Viewer)), r.as("ivo", overInstallation(auth.Viewer, in.ID))
	all, theirs := r.follow(ada, ""), r.follow(other, "")
	all.want("hello")
	theirs.want("hello")
	for _, c := range []struct {
		kind           events.Kind
		id, name, path string
	}{
		{events.JobChanged, jobs[0].ID, "job.updated", "/api/v1/jobs/"},
		{events.RunnerChanged, runners[0].ID, "runner.updated", "/api/v1/runners/"},
		{events.HostChanged, r.seed.Host.ID, "host.updated", "/api/v1/hosts/"},
		{events.InstallationChanged, r.seed.Installation.ID, "installation.updated", "/api/v1/installations/"},
	} {
		r.fleet.bus.Publish(c.kind, c.id)
		if m := all.want(c.name, "status"); m.data != r.body(ada, c.path+c.id) {
			t.Errorf("%s: %s", c.name, m.data)
		}
	}
	r.fleet.bus.Publish(events.HostChanged, "hst_gone")
	if m := all.want("host.deleted", "status"); m.data != `{"id":"hst_gone"}` {
		t.Errorf("gone: %s", m.data)
	}
	r.fleet.bus.Publish(events.InstallationChanged, in.ID)
	theirs.want("installation.updated", "status") // and nothing of all that came before
}
