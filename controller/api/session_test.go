package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

const password = "correct horse"

// hashed is the one hash of all the tests' users: a hash takes long on purpose.
var hashed = sync.OnceValue(func() string { return auth.HashPassword(password) })

// person makes a user with a password.
func (r *rig) person(name string, grants ...store.Grant) store.User {
	r.t.Helper()
	u, err := r.store.CreateUser(context.Background(), store.User{Name: name, Source: "local", PasswordHash: hashed(), Grants: grants})
	if err != nil {
		r.t.Fatal(err)
	}
	return u
}

// signIn returns the cookie of a new session, as a browser sends it.
func (r *rig) signIn(name, password string) string {
	r.t.Helper()
	a := r.call("", "POST", "/api/v1/session", map[string]any{"name": name, "password": password}).want(http.StatusOK)
	return strings.SplitN(a.header.Get("Set-Cookie"), ";", 2)[0]
}

// local calls over the local socket's handler.
func (r *rig) local(method, path string, body any) answer {
	r.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	req := httptest.NewRequestWithContext(context.Background(), method, path, bytes.NewReader(raw))
	req.RemoteAddr = "@"
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	r.server.LocalHandler().ServeHTTP(w, req)
	return answer{r.t, w.Code, w.Header(), w.Body.Bytes()}
}

func TestAFleetIsClaimedOnce(t *testing.T) {
	t.Parallel()
	var in *signin.Service
	r := newRigWith(t, func(o *api.Options) { in = o.SignIn })
	file := filepath.Join(t.TempDir(), "setup-token")
	if _, err := in.PrepareSetup(context.Background(), file); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(raw))
	if s := into[api.Setup](r.call("", "GET", "/api/v1/setup", nil).want(200)); s.Claimed {
		t.Error("a new fleet is claimed")
	}
	claim := func(token, name, password string) answer {
		return r.call("", "POST", "/api/v1/setup/claim", map[string]any{"token": token, "name": name, "password": password})
	}
	claim("zoosetup_wrong", "ada", password).want(401)
	claim("", "ada", password).want(401)
	claim(token, "Ada", password).want(422)
	claim(token, "ada", "short").want(422)
	claim(token, "administrator", "administrator1").want(422)
	u := into[api.User](claim(token, "ada", password).want(200))
	if u.Name != "ada" || len(u.Grants) != 1 || u.Grants[0].Role != "platform" {
		t.Errorf("the first user: %+v", u)
	}
	claim(token, "eve", password).want(409)
	r.local("POST", "/api/v1/setup/claim", map[string]any{"name": "eve", "password": password}).want(409)
	if s := into[api.Setup](r.call("", "GET", "/api/v1/setup", nil).want(200)); !s.Claimed {
		t.Error("not claimed")
	}
	r.signIn("ada", password)
	rows := r.audit()
	if len(rows) != 2 || rows[1].Action != "claim-fleet" || rows[1].ActorName != "ada" || rows[1].ObjectID != u.ID {
		t.Errorf("audit log: %+v", rows)
	}
	for _, row := range rows {
		if strings.Contains(row.After, "0001-01-01") {
			t.Errorf("a time that is none is in the audit log: %+v", row)
		}
		if strings.Contains(row.Before+row.After, password) || strings.Contains(row.Before+row.After, "argon2") {
			t.Errorf("a password is in the audit log: %+v", row)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the setup token is still there")
	}
}

func TestTheMachinesOwnerClaimsWithoutAToken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.local("POST", "/api/v1/setup/claim", map[string]any{"name": "ada", "password": password}).want(200)
	if who := into[api.Identity](r.local("GET", "/api/v1/session", nil).want(200)); who.Kind != "local" || who.UserID != "" {
		t.Errorf("over the socket: %+v", who)
	}
	r.local("PUT", "/api/v1/session/password", map[string]any{"current": "x", "new": "something else"}).want(409)
	r.local("DELETE", "/api/v1/session", nil).want(409)
	if rows := r.audit(); len(rows) != 1 || rows[0].ActorKind != "local" || rows[0].Address != "local" {
		t.Errorf("audit log: %+v", rows)
	}
}

func TestASessionFromSignInToSignOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	u := r.person("ada", over(auth.Admin))
	a := r.call("", "POST", "/api/v1/session", map[string]any{"name": "Ada", "password": password}, "User-Agent", "a browser").want(200)
	set := a.header.Get("Set-Cookie")
	for _, flag := range []string{"zoomies_session=", "HttpOnly", "SameSite=Lax", "Path=/", "Max-Age=2592000"} {
		if !strings.Contains(set, flag) {
			t.Errorf("the cookie %q lacks %s", set, flag)
		}
	}
	cookie, _, _ := strings.Cut(set, ";")
	if secret := strings.TrimPrefix(cookie, "zoomies_session="); strings.Contains(string(a.body), secret) {
		t.Error("the session's secret is in the body")
	}
	who := into[api.Identity](r.call("", "GET", "/api/v1/session", nil, "Cookie", cookie).want(200))
	if who.Kind != "user" || who.UserID != u.ID || who.Name != "ada" || len(who.Grants) != 1 || who.Grants[0].Role != "admin" {
		t.Errorf("who: %+v", who)
	}
	list := into[api.Page[api.Session]](r.call("", "GET", "/api/v1/users/"+u.ID+"/sessions", nil, "Cookie", cookie).want(200))
	if len(list.Items) != 1 || !list.Items[0].Current || list.Items[0].Agent != "a browser" || list.Items[0].ID != who.Via {
		t.Errorf("sessions: %+v", list)
	}
	out := r.call("", "DELETE", "/api/v1/session", nil, "Cookie", cookie).want(204)
	if !strings.Contains(out.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("after signing out: %q", out.header.Get("Set-Cookie"))
	}
	r.call("", "GET", "/api/v1/session", nil, "Cookie", cookie).want(401)
	r.call("", "GET", "/api/v1/session", nil).want(401)
	// A cookie that is over does not keep its owner from signing in.
	r.call("", "POST", "/api/v1/session", map[string]any{"name": "ada", "password": password}, "Cookie", cookie).want(200)
	var did []string
	for _, row := range r.audit() {
		did = append(did, row.Action+" "+row.ActorName)
	}
	if strings.Join(did, ", ") != "sign-in ada, sign-out ada, sign-in ada" {
		t.Errorf("audit log: %v", did)
	}
	token := r.tokenOf(u, "*")
	r.call(token, "DELETE", "/api/v1/session", nil).want(409)
}

func TestOverTLSTheCookieIsKeptFromPlainHTTP(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, func(o *api.Options) { o.Secure = true })
	r.person("ada")
	a := r.call("", "POST", "/api/v1/session", map[string]any{"name": "ada", "password": password}).want(200)
	if set := a.header.Get("Set-Cookie"); !strings.HasPrefix(set, "__Host-zoomies_session=") || !strings.Contains(set, "Secure") {
		t.Errorf("the cookie: %q", set)
	}
}

func TestFailedSignIns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.person("ada", over(auth.Admin))
	try := func(name, password string) answer {
		return r.call("", "POST", "/api/v1/session", map[string]any{"name": name, "password": password})
	}
	wrong, nobody := try("ada", "wrong password").want(401), try("nobody", "wrong password").want(401)
	strip := func(a answer) string {
		p := into[api.Problem](a)
		p.RequestID = ""
		raw, _ := json.Marshal(p)
		return string(raw)
	}
	if strip(wrong) != strip(nobody) {
		t.Errorf("whether there is such a user shows: %s, %s", wrong.body, nobody.body)
	}
	try("ada", "").want(422)
	for range 6 {
		try("nobody", "wrong password").want(401)
	}
	a := try("ada", password).want(429)
	if a.header.Get("Retry-After") != "30" || into[api.Problem](a).Fix == "" {
		t.Errorf("headers %v, body %s", a.header, a.body)
	}
	r.now.step(30 * time.Second)
	try("ada", password).want(200)
	if rows := r.audit(); len(rows) != 1 {
		t.Errorf("failed sign-ins left audit rows: %+v", rows)
	}
}

func TestAPageOfAnotherSiteCannotAct(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.person("ada", over(auth.Admin))
	cookie := r.signIn("ada", password)
	body := map[string]any{"host_name": "h"}
	for name, headers := range map[string][]string{
		"a modern browser": {"Sec-Fetch-Site", "cross-site"}, "a sibling": {"Sec-Fetch-Site", "same-site"}, "an old browser": {"Origin", "https://evil.example"},
	} {
		r.call("", "POST", "/api/v1/join-tokens", body, append(headers, "Cookie", cookie)...).want(403)
		r.call("", "POST", "/api/v1/session", map[string]any{"name": "ada", "password": password}, headers...).want(403)
		if t.Failed() {
			t.Log(name)
		}
	}
	for _, headers := range [][]string{{"Sec-Fetch-Site", "same-origin"}, {"Origin", r.url}, {}} {
		r.call("", "POST", "/api/v1/join-tokens", body, append(headers, "Cookie", cookie)...).want(201)
	}
	// Reading is harmless: a link from elsewhere works.
	r.call("", "GET", "/api/v1/session", nil, "Cookie", cookie, "Sec-Fetch-Site", "cross-site").want(200)
}

func TestOnesOwnPassword(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.person("ada", over(auth.Admin))
	here, elsewhere := r.signIn("ada", password), r.signIn("ada", password)
	change := func(current, fresh string) answer {
		return r.call("", "PUT", "/api/v1/session/password", map[string]any{"current": current, "new": fresh}, "Cookie", here)
	}
	change("wrong password", "a better horse").want(422)
	change(password, "short").want(422)
	change(password, "ada123456!").want(422)
	change(password, "a better horse").want(204)
	r.call("", "GET", "/api/v1/session", nil, "Cookie", here).want(200)
	r.call("", "GET", "/api/v1/session", nil, "Cookie", elsewhere).want(401)
	r.call("", "POST", "/api/v1/session", map[string]any{"name": "ada", "password": password}).want(401)
	r.signIn("ada", "a better horse")
	row := r.audit()[1]
	if row.Action != "change-password" || !strings.Contains(row.After, `"password_set":true`) || strings.Contains(row.After, "horse") {
		t.Errorf("audit row: %+v", row)
	}
	// Two guesses from this address were made above; a session does not buy more than eight.
	for range 6 {
		change("wrong password", "a better horse").want(422)
	}
	change("wrong password", "a better horse").want(429)
}

func TestMetricsAreForViewersUnlessPublic(t *testing.T) {
	t.Parallel()
	rest := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("zoomies_up 1\n")) })
	closed := newRigWith(t, func(o *api.Options) { o.Rest = rest })
	closed.call("", "GET", "/metrics", nil).want(401)
	closed.call(closed.as("vera", over(auth.Viewer)), "GET", "/metrics", nil).want(200)
	u := closed.user("scraper", over(auth.Viewer))
	closed.call(closed.tokenOf(u, "metrics:read"), "GET", "/metrics", nil).want(200)
	closed.call(closed.tokenOf(u, "jobs:read"), "GET", "/metrics", nil).want(403)
	open := newRigWith(t, func(o *api.Options) { o.Rest, o.PublicMetrics = rest, true })
	open.call("", "GET", "/metrics", nil).want(200)
}
