package api_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// runners writes n runners of a pool on the rig's host, each a second after the one before.
func (r *rig) runners(p store.Pool, n int) []store.Runner {
	r.t.Helper()
	var out []store.Runner
	for i := range n {
		rows := []store.Runner{{
			Name: fmt.Sprintf("%s-%d-%s", p.Name, i, store.NewID("")[:4]), PoolID: p.ID, HostID: r.seed.Host.ID, InstallationID: p.InstallationID, Backend: "podman",
			Reason: "1 job queued", Ephemeral: true,
		}}
		if err := r.store.CreateRunners(context.Background(), rows); err != nil {
			r.t.Fatal(err)
		}
		out = append(out, rows[0])
		r.now.step(time.Second)
	}
	return out
}

// moved takes a runner through states, a second apart.
func (r *rig) moved(id string, states ...store.RunnerState) {
	r.t.Helper()
	for _, s := range states {
		if _, _, err := r.store.TransitionRunner(context.Background(), id, s, store.Change{Message: "it is " + string(s)}); err != nil {
			r.t.Fatal(err)
		}
		r.now.step(time.Second)
	}
}

// job writes a job of an installation.
func (r *rig) job(in store.Installation, id int64, edit ...func(*store.JobUpdate)) store.Job {
	r.t.Helper()
	u := store.JobUpdate{
		InstallationID: in.ID, GitHubID: id, RunID: 100 + id, RunAttempt: 1, Repository: "acme/app", Workflow: "ci", Name: fmt.Sprint("test ", id),
		Labels: []string{"zoomies"}, State: store.JobQueued, QueuedAt: r.now.now().Add(-time.Second),
	}
	for _, e := range edit {
		e(&u)
	}
	c, err := r.store.UpsertJob(context.Background(), u)
	if err != nil {
		r.t.Fatal(err)
	}
	r.now.step(time.Second)
	return c.Job
}

// lastAudit is the newest row of the audit log, which must be of that action.
func (r *rig) lastAudit(action string, rows int) store.AuditRow {
	r.t.Helper()
	all := r.audit()
	if len(all) != rows || rows > 0 && all[0].Action != action {
		r.t.Fatalf("%d audit rows, want %d, the newest %s: %+v", len(all), rows, action, all)
	}
	if rows == 0 {
		return store.AuditRow{}
	}
	return all[0]
}

func refused(t *testing.T, r *rig, token, method, path string, body any, status int) {
	t.Helper()
	if got := r.call(token, method, path, body); got.status != status {
		t.Errorf("%s %s: got %d, want %d: %s", method, path, got.status, status, got.body)
	}
}
