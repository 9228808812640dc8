package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
)

// gateways is the tunnel's part: it notes whom it let in.
type gateways struct {
	admitted []string
	err      error
}

func (*gateways) Terms(context.Context) (relay, admit string, err error) {
	return "tcController", "nodekey:0123", nil
}

func (g *gateways) Admit(_ context.Context, name, address string) error {
	if g.err != nil {
		return g.err
	}
	g.admitted = append(g.admitted, name+" "+address)
	return nil
}

func newSetupRig(t *testing.T) (*rig, *gateways, string) {
	t.Helper()
	g := &gateways{}
	r := newRigWith(t, func(o *api.Options) {
		o.Gateways, o.AgentURL, o.CAPin = g, "https://zoomies.example.org:8443", "sha256:"+strings.Repeat("ab", 32)
	})
	return r, g, r.as("ada", over(auth.Admin))
}

const pveSecret = "5c6d3a2e-1111-4222-8333-444455556666"

// posted is a completion, with edits of its connection.
func posted(token string, edit map[string]any) map[string]any {
	c := map[string]any{
		"endpoint": "https://pve1.example.org:8006", "ca": "-----BEGIN CERTIFICATE-----", "fingerprint": "sha256:" + strings.Repeat("0f", 32), "node": "pve1",
		"version": "9.2.11", "token_id": "zoomies@pve!home", "token_secret": pveSecret, "gateway": "tcGateway", "pool": "zoomies", "storages": []string{"local"}, "bridge": "vmbr0",
	}
	maps.Copy(c, edit)
	return map[string]any{"token": token, "connection": c}
}

// capability is in the command's environment, before its first word.
func capability(t *testing.T, command string) string {
	t.Helper()
	env, rest, ok := strings.Cut(command, " ")
	token, is := strings.CutPrefix(env, "ZOOMIES_SETUP_TOKEN=")
	if !ok || !is || !strings.HasPrefix(token, "zoogateway_") || strings.Contains(rest, token) {
		t.Fatalf("the command: %s", command)
	}
	return token
}

const completion = "/api/v1/provider-setups/completion"

func TestAProviderSetupFromItsMakingToItsConnection(t *testing.T) {
	t.Parallel()
	r, g, admin := newSetupRig(t)
	made := into[api.CreatedProviderSetup](r.call(admin, "POST", "/api/v1/provider-setups", map[string]any{"name": "home", "storages": []string{"local", "fast"}}).want(201))
	token := capability(t, made.Command)
	want := "ZOOMIES_SETUP_TOKEN=" + token + " zoomies gateway install --name home --controller https://zoomies.example.org:8443 --ca-pin sha256:" + strings.Repeat("ab", 32) +
		" --pool zoomies --storage local --storage fast --bridge vmbr0 --relay tcController --admit nodekey:0123"
	if made.Command != want || made.State != "open" || made.ExpiresAt.Sub(made.CreatedAt) != time.Hour || made.Endpoint != "" {
		t.Errorf("made: %+v", made)
	}
	done := into[api.ProviderSetup](r.call("", "POST", completion, posted(token, nil)).want(200))
	if done.State != "ready" || done.Endpoint != "https://pve1.example.org:8006" || done.Name != "home" {
		t.Errorf("done: %+v", done)
	}
	// Its answer was lost: the same again is answered alike. Another connection is not.
	r.call("", "POST", completion, posted(token, nil)).want(200)
	r.call("", "POST", completion, posted(token, map[string]any{"token_secret": "another"})).want(401)
	if strings.Join(g.admitted, ", ") != "home tcGateway, home tcGateway" {
		t.Errorf("let in: %v", g.admitted)
	}
	kept, err := r.store.ProviderSetupConnection(t.Context(), made.ID)
	if err != nil {
		t.Fatal(err)
	}
	var c api.ProviderConnection
	if err := json.Unmarshal(kept.Reveal(), &c); err != nil || c.TokenSecret != pveSecret || c.TokenID != "zoomies@pve!home" || c.Gateway != "tcGateway" {
		t.Errorf("kept: %+v, %v", c, err)
	}
	// Nobody is shown more than name, endpoint and readiness.
	shown := string(r.call(admin, "GET", "/api/v1/provider-setups/"+made.ID, nil).want(200).body) +
		string(r.call(admin, "GET", "/api/v1/provider-setups?name=home", nil).want(200).body) + r.log.String()
	for _, row := range r.audit() {
		shown += row.Before + row.After
	}
	for _, secret := range []string{token, auth.HashToken(token), pveSecret, "zoomies@pve", "tcGateway", "BEGIN CERTIFICATE", "fingerprint"} {
		if strings.Contains(shown, secret) {
			t.Errorf("%s is shown", secret)
		}
	}
	r.call(admin, "DELETE", "/api/v1/provider-setups/"+made.ID, nil).want(204)
	r.call(admin, "DELETE", "/api/v1/provider-setups/"+made.ID, nil).want(404)
	r.call(admin, "GET", "/api/v1/provider-setups/"+made.ID, nil).want(404)
	var did []string
	for _, row := range r.audit() {
		did = append(did, row.ActorKind+" "+row.Action+" "+row.ObjectName)
	}
	if strings.Join(did, ", ") != "token delete-provider-setup home, setup complete-provider-setup home, setup complete-provider-setup home, token create-provider-setup home" {
		t.Errorf("audit log: %v", did)
	}
}

func TestProviderSetupsThatAreRefused(t *testing.T) {
	t.Parallel()
	r, _, admin := newSetupRig(t)
	r.call(admin, "POST", "/api/v1/provider-setups", map[string]any{"name": "home"}).want(201)
	r.check([]rights{
		{"a taken name", admin, "POST", "/api/v1/provider-setups", map[string]any{"name": "home"}, 409},
		{"no name", admin, "POST", "/api/v1/provider-setups", map[string]any{}, 422},
		{"a name that is none", admin, "POST", "/api/v1/provider-setups", map[string]any{"name": "a b"}, 422},
		{"a flag for a pool", admin, "POST", "/api/v1/provider-setups", map[string]any{"name": "ok", "pool": "--x"}, 422},
		{"a flag for a storage", admin, "POST", "/api/v1/provider-setups", map[string]any{"name": "ok", "storages": []string{"-o"}}, 422},
		{"a command for a bridge", admin, "POST", "/api/v1/provider-setups", map[string]any{"name": "ok", "bridge": "a;b"}, 422},
		{"by an operator", r.as("olga", over(auth.Operator)), "POST", "/api/v1/provider-setups", map[string]any{"name": "ok"}, 403},
		{"by an admin of an installation", r.as("ivo", overInstallation(auth.Admin, r.seed.Installation.ID)), "POST", "/api/v1/provider-setups", map[string]any{"name": "ok"}, 403},
		{"listed by an operator", r.as("oli", over(auth.Operator)), "GET", "/api/v1/provider-setups", nil, 403},
	})
	without := newRigWith(t, func(o *api.Options) { o.AgentURL = "https://zoomies.example.org" })
	without.local("POST", "/api/v1/provider-setups", map[string]any{"name": "home"}).want(409)
	plain := newRigWith(t, func(o *api.Options) { o.AgentURL, o.Gateways = "http://zoomies.example.org", &gateways{} })
	plain.local("POST", "/api/v1/provider-setups", map[string]any{"name": "home"}).want(409)
}

// An unknown, a spent and an expired token are answered alike, and too many of them are shed.
func TestCompletionsThatAreRefused(t *testing.T) {
	t.Parallel()
	r, g, admin := newSetupRig(t)
	create := func(name string) string {
		return capability(t, into[api.CreatedProviderSetup](r.call(admin, "POST", "/api/v1/provider-setups", map[string]any{"name": name}).want(201)).Command)
	}
	spent, late := create("spent"), create("late")
	r.call("", "POST", completion, posted(spent, nil)).want(200)
	for name, body := range map[string]map[string]any{
		"no endpoint": {"endpoint": "https://"}, "plain HTTP": {"endpoint": "http://pve1:8006"}, "with a path": {"endpoint": "https://pve1:8006/x"},
		"no fingerprint": {"fingerprint": ""}, "no token": {"token_secret": ""}, "a token that is none": {"token_id": "root@pam"}, "no storage": {"storages": []string{}},
		"what nobody knows": {"password": "x"},
	} {
		if got := r.call("", "POST", completion, posted(late, body)); got.status != 422 || strings.Contains(string(got.body), pveSecret) {
			t.Errorf("%s: got %d: %s", name, got.status, got.body)
		}
	}
	r.now.step(10 * time.Minute)
	// The setup is as open as before.
	if page := into[api.Page[api.ProviderSetup]](r.call(admin, "GET", "/api/v1/provider-setups?name=late", nil).want(200)); page.Items[0].State != "open" {
		t.Errorf("%+v", page.Items)
	}
	r.now.step(time.Hour)
	var answers []string
	for _, token := range []string{spent, late, "zoogateway_guess"} {
		p := into[api.Problem](r.call("", "POST", completion, posted(token, nil)).want(401))
		answers = append(answers, p.Detail+p.Fix)
	}
	if answers[0] != answers[1] || answers[1] != answers[2] {
		t.Errorf("they are told apart: %q", answers)
	}
	if page := into[api.Page[api.ProviderSetup]](r.call(admin, "GET", "/api/v1/provider-setups?sort=-name", nil).want(200)); page.Items[0].State != "ready" || page.Items[1].State != "expired" {
		t.Errorf("%+v", page.Items)
	}
	if len(g.admitted) != 1 {
		t.Errorf("let in: %v", g.admitted)
	}
	shed := 0
	for range 10 {
		if got := r.call("", "POST", completion, posted("zoogateway_guess", nil)); got.status == 429 && got.header.Get("Retry-After") != "" {
			shed++
		}
	}
	if shed < 4 {
		t.Errorf("%d of many guesses were shed", shed)
	}
	rows := r.audit()
	if rows[0].Action != "complete-provider-setup" || len(rows) != 3 {
		t.Errorf("refusals are in the audit log: %d rows", len(rows))
	}
}

// The tunnel is down at the moment of the completion: it is kept, and the repeat is let in.
func TestAGatewayIsLetInByTheRepeat(t *testing.T) {
	t.Parallel()
	r, g, admin := newSetupRig(t)
	token := capability(t, into[api.CreatedProviderSetup](r.call(admin, "POST", "/api/v1/provider-setups", map[string]any{"name": "home"}).want(201)).Command)
	g.err = errors.New("the tunnel is down")
	r.call("", "POST", completion, posted(token, nil)).want(500)
	g.err = nil
	r.call("", "POST", completion, posted(token, nil)).want(200)
	if strings.Join(g.admitted, "") != "home tcGateway" {
		t.Errorf("let in: %v", g.admitted)
	}
}
