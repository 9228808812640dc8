package api_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
)

func TestAPoolFromItsMakingToItsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	admin := r.as("ada", over(auth.Admin))

	made := into[api.Pool](r.call(admin, "POST", "/api/v1/pools", map[string]any{
		"name": "big", "installation_id": r.seed.Installation.ID, "labels": []string{"gpu"}, "max": 3, "idle_timeout": "90s", "env": map[string]string{"A": "1"},
	}).want(http.StatusCreated))
	if made.Backend != "podman" || !made.Enabled || !made.Ephemeral || made.PullPolicy != "missing" || made.Max != 3 {
		t.Errorf("defaults: %+v", made)
	}
	got := r.call(admin, "GET", "/api/v1/pools/"+made.ID, nil).want(http.StatusOK)
	tag := got.header.Get("ETag")
	if tag == "" || !strings.Contains(string(got.body), `"idle_timeout":"1m30s"`) {
		t.Errorf("etag %q, body %s", tag, got.body)
	}
	r.call(admin, "GET", "/api/v1/pools/"+made.ID, nil, "If-None-Match", "W/"+tag).want(http.StatusNotModified)

	changed := into[api.Pool](r.call(admin, "PATCH", "/api/v1/pools/"+made.ID,
		map[string]any{"max": 7, "env": map[string]string{"B": "2"}, "enabled": false}, "If-Match", tag).want(http.StatusOK))
	if changed.Max != 7 || changed.Enabled || len(changed.Env) != 1 || changed.Env["B"] != "2" || changed.Labels[0] != "gpu" {
		t.Errorf("after the change: %+v", changed)
	}
	r.call(admin, "PATCH", "/api/v1/pools/"+made.ID, map[string]any{"max": 8}, "If-Match", tag).want(http.StatusPreconditionFailed)

	paused := into[api.Pool](r.call(admin, "PUT", "/api/v1/pools/"+made.ID+"/pause", map[string]any{"reason": "the rack is hot"}).want(http.StatusOK))
	if !paused.Paused || paused.PauseReason != "the rack is hot" || paused.PausedAt == nil {
		t.Errorf("paused: %+v", paused)
	}
	r.call(admin, "DELETE", "/api/v1/pools/"+made.ID+"/pause", nil).want(http.StatusNoContent)
	r.call(admin, "DELETE", "/api/v1/pools/"+made.ID, nil).want(http.StatusNoContent)
	r.call(admin, "GET", "/api/v1/pools/"+made.ID, nil).want(http.StatusNotFound)

	var did []string
	for _, row := range r.audit() {
		did = append(did, row.Action)
		if row.ActorName == "" || row.ObjectID != made.ID || row.RequestID == "" || row.Address == "" {
			t.Errorf("audit row %+v", row)
		}
	}
	if want := "delete-pool resume-pool pause-pool update-pool create-pool"; strings.Join(did, " ") != want {
		t.Errorf("audit log: %v", did)
	}
	if r.fleet.looks != 5 {
		t.Errorf("the loops were woken %d times", r.fleet.looks)
	}
}

func TestABadPoolChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	admin := r.as("ada", over(auth.Admin))
	good := func(edit map[string]any) map[string]any {
		body := map[string]any{"name": "big", "installation_id": r.seed.Installation.ID}
		maps.Copy(body, edit)
		return body
	}
	for name, c := range map[string]struct {
		body   any
		status int
		says   string
	}{
		"min above max":      {good(map[string]any{"min": 5, "max": 2}), 422, "min is 5 and max is 2"},
		"no installation":    {good(map[string]any{"installation_id": "ins_none"}), 422, "no installation ins_none"},
		"taken name":         {good(map[string]any{"name": r.seed.Pool.Name}), 409, "another pool"},
		"bad name":           {good(map[string]any{"name": "Big Pool"}), 422, "name"},
		"no name":            {map[string]any{"installation_id": r.seed.Installation.ID}, 422, "name"},
		"unknown field":      {good(map[string]any{"colour": "red"}), 422, "colour"},
		"bad duration":       {good(map[string]any{"idle_timeout": "soon"}), 422, "duration"},
		"negative duration":  {good(map[string]any{"idle_timeout": "-5m"}), 422, "idle_timeout"},
		"endless duration":   {good(map[string]any{"idle_timeout": "99999999h"}), 422, "duration"},
		"unknown backend":    {good(map[string]any{"backend": "lxc"}), 422, "backend"},
		"process and daemon": {good(map[string]any{"backend": "process", "daemon": "podman"}), 422, "daemon"},
		"reserved variable":  {good(map[string]any{"env": map[string]string{"ZOOMIES_JIT": "x"}}), 422, "fleet's own"},
		"bad variable":       {good(map[string]any{"env": map[string]string{"A=B": "x"}}), 422, "no name"},
		"no JSON":            {"{", 400, ""},
		"not an object":      {"[]", 422, ""},
		"huge":               {`{"name":"` + strings.Repeat("x", 1<<20) + `"}`, 413, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a := r.call(admin, "POST", "/api/v1/pools", c.body).want(c.status)
			p := into[api.Problem](a)
			if !strings.Contains(string(a.body), c.says) || p.Fix == "" || p.Status != c.status || p.RequestID == "" {
				t.Errorf("got %s", a.body)
			}
		})
	}
	if page := into[api.Page[api.Pool]](r.call(admin, "GET", "/api/v1/pools", nil).want(200)); len(page.Items) != 1 {
		t.Errorf("pools: %+v", page)
	}
	if rows := r.audit(); len(rows) != 0 {
		t.Errorf("failed requests left audit rows: %+v", rows)
	}
}

func TestListsAreSortedAndPaged(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	admin := r.as("ada", over(auth.Admin))
	for _, n := range []string{"delta", "alpha", "charlie", "bravo"} {
		r.call(admin, "POST", "/api/v1/pools", map[string]any{"name": n, "installation_id": r.seed.Installation.ID}).want(201)
	}
	for sort, want := range map[string]string{
		"name": "alpha bravo charlie delta zoomies-linux-x64", "-name": "zoomies-linux-x64 delta charlie bravo alpha",
	} {
		var names []string
		cursor := ""
		for {
			page := into[api.Page[api.Pool]](r.call(admin, "GET", "/api/v1/pools?limit=2&sort="+sort+"&cursor="+cursor, nil).want(200))
			if len(page.Items) > 2 {
				t.Fatalf("a page of %d", len(page.Items))
			}
			for _, p := range page.Items {
				names = append(names, p.Name)
			}
			if cursor = page.NextCursor; cursor == "" {
				break
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("sort %s: got %s", sort, got)
		}
	}
	r.call(admin, "GET", "/api/v1/pools?cursor=rubbish", nil).want(422)
	next := into[api.Page[api.Pool]](r.call(admin, "GET", "/api/v1/pools?limit=2", nil)).NextCursor
	r.call(admin, "GET", "/api/v1/pools?limit=2&sort=-name&cursor="+next, nil).want(422)
	r.call(admin, "GET", "/api/v1/pools?limit=501", nil).want(422)
	r.call(admin, "GET", "/api/v1/pools?colour=red", nil).want(422)
	if page := into[api.Page[api.Pool]](r.call(admin, "GET", "/api/v1/pools?name=bravo", nil)); len(page.Items) != 1 {
		t.Errorf("by name: %+v", page)
	}
}
