package api_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/config"
)

// withEnviron is a controller whose environment sets these.
func withEnviron(environ ...string) func(*api.Options) {
	return func(o *api.Options) {
		o.LoadSettings = func(rows map[string]string) (*config.Config, error) {
			return config.Load(config.LoadOptions{Database: rows, Environ: environ})
		}
	}
}

func TestASettingIsSetAndReset(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	root := r.as("root", over(auth.Platform))
	const path = "/api/v1/settings/github.poll_interval"
	got := r.call(root, "GET", path, nil).want(200)
	if v := into[api.Setting](got); v.Value != "1m0s" || v.Source != "default" || v.DatabaseValue != nil || v.Floor != "10s" || v.Variable != "ZOOMIES_GITHUB_POLL_INTERVAL" {
		t.Errorf("before: %+v", v)
	}
	tag := got.header.Get("ETag")
	v := into[api.Setting](r.call(root, "PUT", path, map[string]any{"value": "2m"}, "If-Match", tag).want(200))
	if v.Value != "2m0s" || v.Source != "database" || *v.DatabaseValue != "2m" || v.RestartRequired || v.Effect != "live" {
		t.Errorf("after: %+v", v)
	}
	r.call(root, "PUT", path, map[string]any{"value": "3m"}, "If-Match", tag).want(412)
	const late = "/api/v1/settings/metrics.public"
	if v := into[api.Setting](r.call(root, "PUT", late, map[string]any{"value": "true"}).want(200)); !v.RestartRequired || v.Effect != "restart" {
		t.Errorf("one that needs a restart: %+v", v)
	}
	r.call(root, "DELETE", late, nil).want(204)
	list := into[api.Page[api.Setting]](r.call(root, "GET", "/api/v1/settings?source=database", nil).want(200))
	if len(list.Items) != 1 || list.Items[0].Key != "github.poll_interval" {
		t.Errorf("from the database: %+v", list)
	}
	r.call(root, "DELETE", path, nil).want(204)
	if v := into[api.Setting](r.call(root, "GET", path, nil).want(200)); v.Value != "1m0s" || v.RestartRequired {
		t.Errorf("after the reset: %+v", v)
	}
	if r.fleet.applied != 4 {
		t.Errorf("applied %d times", r.fleet.applied)
	}
	rows := r.audit()
	if len(rows) != 4 || rows[3].Action != "set-setting" || rows[3].ObjectID != "github.poll_interval" || !strings.Contains(rows[3].Before, `"value":"1m0s"`) || !strings.Contains(rows[3].After, `"value":"2m0s"`) {
		t.Errorf("audit log: %+v", rows)
	}
}

func TestEverySettingIsListedInTheRegistrysOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if err := r.store.SetSetting(context.Background(), "internal.secret", "CANARY"); err != nil {
		t.Fatal(err)
	}
	admin := r.as("ada", over(auth.Admin))
	var got []string
	cursor := ""
	for {
		a := r.call(admin, "GET", "/api/v1/settings?limit=7&cursor="+cursor, nil).want(200)
		if strings.Contains(string(a.body), "CANARY") || strings.Contains(string(a.body), "internal.") {
			t.Errorf("what is no setting is listed: %s", a.body)
		}
		page := into[api.Page[api.Setting]](a)
		for _, v := range page.Items {
			got = append(got, v.Key)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	var want []string
	for _, s := range config.Registry() {
		want = append(want, s.Key)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("got %v", got)
	}
	r.call(admin, "GET", "/api/v1/settings/internal.secret", nil).want(404)
	r.call(admin, "PUT", "/api/v1/settings/github.poll_interval", map[string]any{"value": "2m"}).want(403)
}

func TestABadSettingIsRefused(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, withEnviron("ZOOMIES_AGENT_CAPACITY=5"))
	root := r.as("root", over(auth.Platform))
	for name, c := range map[string]struct {
		key, value string
		status     int
		says       string
	}{
		"unknown":           {"poll_interval", "2m", 404, "github.poll_interval"},
		"internal":          {"internal.fleet_id", "x", 404, ""},
		"no duration":       {"github.poll_interval", "soon", 422, "soon"},
		"below the floor":   {"github.poll_interval", "1s", 422, "10s"},
		"another word":      {"log.level", "loud", 422, "loud"},
		"early":             {"data_dir", "/tmp", 409, "ZOOMIES_DATA_DIR"},
		"would not start":   {"listen", "nowhere", 422, "would not start"},
		"a certificate":     {"tls.cert_file", "/nowhere/cert.pem", 422, "would not start"},
		"no list of these":  {"agent.backends", "podman,lxc", 422, "lxc"},
		"not even a map":    {"runners.env", "A", 422, ""},
		"an unknown member": {"listen", "", 422, ""},
	} {
		if a := r.call(root, "PUT", "/api/v1/settings/"+c.key, map[string]any{"value": c.value}); a.status != c.status || !strings.Contains(string(a.body), c.says) {
			t.Errorf("%s: got %d %s", name, a.status, a.body)
		}
	}
	if rows := r.audit(); len(rows) != 0 || r.fleet.applied != 0 {
		t.Errorf("refused settings left audit rows, or were applied: %+v", rows)
	}
	// A warning is an answer, and the environment stays above the database.
	v := into[api.Setting](r.call(root, "PUT", "/api/v1/settings/github.mints_per_minute", map[string]any{"value": "170"}).want(200))
	if len(v.Findings) != 1 || v.Findings[0].Severity != "warning" || v.Findings[0].Fix == "" {
		t.Errorf("findings: %+v", v.Findings)
	}
	v = into[api.Setting](r.call(root, "PUT", "/api/v1/settings/agent.capacity", map[string]any{"value": "9"}).want(200))
	if v.Value != "5" || v.Source != "environment" || v.SourceDetail != "ZOOMIES_AGENT_CAPACITY" || *v.DatabaseValue != "9" {
		t.Errorf("overridden: %+v", v)
	}
}

func TestASettingThatCannotBeAppliedIsSaidSo(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.fleet.applyErr = errors.New("no")
	a := r.call(r.as("root", over(auth.Platform)), "PUT", "/api/v1/settings/log.level", map[string]any{"value": "debug"}).want(500)
	if !strings.Contains(string(a.body), "log.level was written") || len(r.audit()) != 1 {
		t.Errorf("got %s", a.body)
	}
}
