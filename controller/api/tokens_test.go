package api_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
)

func TestAnAPITokenFromItsMakingToItsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	u := r.person("ada", over(auth.Operator))
	cookie := r.signIn("ada", password)
	made := into[api.CreatedAPIToken](r.call("", "POST", "/api/v1/tokens", map[string]any{"name": "ci", "scopes": []string{"pools:read", "access:write"}}, "Cookie", cookie).want(201))
	if !strings.HasPrefix(made.Token, "zoo_") || made.UserID != u.ID || made.ExpiresAt == nil || made.ExpiresAt.Sub(r.now.now()) != 90*24*time.Hour ||
		len(made.Grants) != 1 || made.Grants[0].Role != "operator" {
		t.Errorf("made: %+v", made)
	}
	r.call(made.Token, "GET", "/api/v1/pools", nil).want(200)
	r.call(made.Token, "GET", "/api/v1/audit", nil).want(403)
	list := r.call("", "GET", "/api/v1/tokens", nil, "Cookie", cookie).want(200)
	page := into[api.Page[api.APIToken]](list)
	if strings.Contains(string(list.body), made.Token) || strings.Contains(string(list.body), auth.HashToken(made.Token)) || len(page.Items) != 1 ||
		page.Items[0].LastUsedAt == nil || page.Items[0].UserName != "ada" {
		t.Errorf("listed: %s", list.body)
	}
	r.now.step(91 * 24 * time.Hour)
	r.call(made.Token, "GET", "/api/v1/pools", nil).want(401)
	cookie = r.signIn("ada", password)
	if page := into[api.Page[api.APIToken]](r.call("", "GET", "/api/v1/tokens?name=ci", nil, "Cookie", cookie).want(200)); !page.Items[0].Expired {
		t.Errorf("after its end: %+v", page)
	}
	r.call("", "DELETE", "/api/v1/tokens/"+made.ID, nil, "Cookie", cookie).want(204)
	r.call("", "DELETE", "/api/v1/tokens/"+made.ID, nil, "Cookie", cookie).want(404)
	for _, row := range r.audit() {
		if strings.Contains(row.Before+row.After, made.Token) || strings.Contains(row.Before+row.After, auth.HashToken(made.Token)) {
			t.Errorf("the token is in the audit log: %+v", row)
		}
	}
	if strings.Contains(r.log.String(), made.Token) {
		t.Error("the token is in the log")
	}
}

func TestAnAPITokenGivesNoMoreThanItsMakerHas(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, otherPool := r.neighbour()
	root := r.user("root", over(auth.Platform))
	olga := r.user("olga", over(auth.Operator))
	ivo := r.as("ivo", overInstallation(auth.Admin, r.seed.Installation.ID))
	all, access, tokensOnly := r.tokenOf(olga, "*"), r.tokenOf(olga, "access:write", "jobs:read"), r.tokenOf(olga, "jobs:write")
	n := 0
	body := func(edit map[string]any) map[string]any {
		n++
		b := map[string]any{"name": "t" + strings.Repeat("x", n)}
		maps.Copy(b, edit)
		return b
	}
	grants := func(g ...map[string]any) map[string]any { return map[string]any{"grants": g} }
	r.check([]rights{
		{"less than oneself", all, "POST", "/api/v1/tokens", body(grants(map[string]any{"role": "viewer"})), 201},
		{"narrower than oneself", all, "POST", "/api/v1/tokens", body(grants(map[string]any{"role": "operator", "scope_kind": "pool", "scope_id": r.seed.Pool.ID})), 201},
		{"more than oneself", all, "POST", "/api/v1/tokens", body(grants(map[string]any{"role": "admin"})), 403},
		{"wider than oneself", ivo, "POST", "/api/v1/tokens", body(grants(map[string]any{"role": "viewer"})), 403},
		{"over another's pool", ivo, "POST", "/api/v1/tokens", body(grants(map[string]any{"role": "viewer", "scope_kind": "pool", "scope_id": otherPool.ID})), 403},
		{"a scope that is none", all, "POST", "/api/v1/tokens", body(map[string]any{"scopes": []string{"job:read"}}), 422},
		{"no scope at all", all, "POST", "/api/v1/tokens", body(map[string]any{"scopes": []string{}}), 422},
		{"a token's own scope", access, "POST", "/api/v1/tokens", body(map[string]any{"scopes": []string{"jobs:read"}}), 201},
		{"a wider scope than its own", access, "POST", "/api/v1/tokens", body(map[string]any{"scopes": []string{"jobs:write"}}), 403},
		{"every scope", access, "POST", "/api/v1/tokens", body(map[string]any{"scopes": []string{"*"}}), 403},
		{"without the scope", tokensOnly, "POST", "/api/v1/tokens", body(nil), 403},
		{"for somebody else", all, "POST", "/api/v1/tokens", body(map[string]any{"user_id": root.ID}), 403},
		{"for ever", all, "POST", "/api/v1/tokens", body(map[string]any{"never_expires": true}), 403},
		{"for ever, by platform", r.tokenOf(root, "*"), "POST", "/api/v1/tokens", body(map[string]any{"never_expires": true}), 201},
		{"for longer than a year", all, "POST", "/api/v1/tokens", body(map[string]any{"expires_in": "9000h"}), 422},
		{"for no time", all, "POST", "/api/v1/tokens", body(map[string]any{"expires_in": "0s"}), 422},
		{"a taken name", all, "POST", "/api/v1/tokens", map[string]any{"name": "tx"}, 409},
		{"a stranger", "", "POST", "/api/v1/tokens", body(nil), 401},
	})
	// What is left out is the maker's own, and not more.
	made := into[api.CreatedAPIToken](r.call(access, "POST", "/api/v1/tokens", body(nil)).want(201))
	if strings.Join(made.Scopes, " ") != "access:write jobs:read" {
		t.Errorf("scopes: %v", made.Scopes)
	}
	short := into[api.CreatedAPIToken](r.call(all, "POST", "/api/v1/tokens", body(map[string]any{"expires_in": "1h"})).want(201))
	child := into[api.CreatedAPIToken](r.call(short.Token, "POST", "/api/v1/tokens", body(nil)).want(201))
	if !child.ExpiresAt.Equal(*short.ExpiresAt) {
		t.Errorf("a token outlives the one that made it: %s, %s", child.ExpiresAt, short.ExpiresAt)
	}
	r.local("POST", "/api/v1/tokens", map[string]any{"name": "loc"}).want(422)
	r.local("POST", "/api/v1/tokens", map[string]any{"name": "loc", "user_id": "usr_none"}).want(422)
	r.local("POST", "/api/v1/tokens", map[string]any{"name": "loc", "user_id": olga.ID, "grants": []map[string]any{{"role": "admin"}}}).want(403)
	mine := into[api.CreatedAPIToken](r.local("POST", "/api/v1/tokens", map[string]any{"name": "loc", "user_id": olga.ID}).want(201))
	if mine.UserID != olga.ID || mine.Grants[0].Role != "operator" {
		t.Errorf("by the machine's owner: %+v", mine)
	}
}

func TestWhoSeesAndRevokesAPITokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	root := r.user("root", over(auth.Platform))
	olga := r.user("olga", over(auth.Operator))
	pia := r.user("pia", overPool(auth.Operator, r.seed.Pool.ID))
	admin, narrow := r.as("ada", over(auth.Admin)), r.as("ivo", overInstallation(auth.Admin, r.seed.Installation.ID))
	tokens := map[string]string{"root": r.tokenOf(root, "*"), "olga": r.tokenOf(olga, "*"), "pia": r.tokenOf(pia, "*")}
	ids := map[string]string{}
	for _, x := range into[api.Page[api.APIToken]](r.call(admin, "GET", "/api/v1/tokens", nil).want(200)).Items {
		ids[x.UserName] = x.ID
	}
	if len(ids) != 5 {
		t.Errorf("the admin sees %v", ids)
	}
	users := func(token string) string {
		var out []string
		for _, x := range into[api.Page[api.APIToken]](r.call(token, "GET", "/api/v1/tokens", nil).want(200)).Items {
			out = append(out, x.UserName)
		}
		return strings.Join(out, " ")
	}
	if got := users(tokens["olga"]); got != "olga" {
		t.Errorf("an operator sees %s", got)
	}
	if got := users(narrow); got != "ivo pia" {
		t.Errorf("a narrowed admin sees %s", got)
	}
	r.check([]rights{
		{"somebody else's", tokens["olga"], "DELETE", "/api/v1/tokens/" + ids["pia"], nil, 404},
		{"outside", narrow, "DELETE", "/api/v1/tokens/" + ids["olga"], nil, 404},
		{"inside", narrow, "DELETE", "/api/v1/tokens/" + ids["pia"], nil, 204},
		{"one's own, with itself", tokens["olga"], "DELETE", "/api/v1/tokens/" + ids["olga"], nil, 204},
		{"and then it is over", tokens["olga"], "GET", "/api/v1/tokens", nil, 401},
		{"an admin revokes any", admin, "DELETE", "/api/v1/tokens/" + ids["root"], nil, 204},
	})
}

func TestJoinTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	admin := r.as("ada", over(auth.Admin))
	made := into[api.CreatedJoinToken](r.call(admin, "POST", "/api/v1/join-tokens", map[string]any{"host_name": "builder"}).want(201))
	if !strings.HasPrefix(made.Token, "zoojoin_") || made.State != "open" || made.ExpiresAt.Sub(made.CreatedAt) != time.Hour {
		t.Errorf("made: %+v", made)
	}
	owners := into[api.CreatedJoinToken](r.local("POST", "/api/v1/join-tokens", map[string]any{"host_name": "builder-2", "ttl": "24h"}).want(201))
	r.check([]rights{
		{"longer than a day", admin, "POST", "/api/v1/join-tokens", map[string]any{"host_name": "h", "ttl": "24h1s"}, 422},
		{"for no time", admin, "POST", "/api/v1/join-tokens", map[string]any{"host_name": "h", "ttl": "0s"}, 422},
		{"for no host", admin, "POST", "/api/v1/join-tokens", map[string]any{}, 422},
		{"for an empty host", admin, "POST", "/api/v1/join-tokens", map[string]any{"host_name": ""}, 422},
		{"by an operator", r.as("olga", over(auth.Operator)), "POST", "/api/v1/join-tokens", map[string]any{"host_name": "h"}, 403},
		{"by an admin of an installation", r.as("ivo", overInstallation(auth.Admin, r.seed.Installation.ID)), "POST", "/api/v1/join-tokens", map[string]any{"host_name": "h"}, 403},
		{"which is not there", admin, "DELETE", "/api/v1/join-tokens/tok_none", nil, 404},
	})
	list := r.call(admin, "GET", "/api/v1/join-tokens?sort=host_name&state=open", nil).want(200)
	page := into[api.Page[api.JoinToken]](list)
	if len(page.Items) != 2 || page.Items[1].ID != owners.ID || strings.Contains(string(list.body), "zoojoin_") || strings.Contains(string(list.body), auth.HashToken(made.Token)) {
		t.Errorf("listed: %s", list.body)
	}
	r.call(admin, "DELETE", "/api/v1/join-tokens/"+owners.ID, nil).want(204)
	r.now.step(time.Hour)
	if page := into[api.Page[api.JoinToken]](r.call(admin, "GET", "/api/v1/join-tokens?state=expired", nil).want(200)); len(page.Items) != 1 || page.Items[0].ID != made.ID {
		t.Errorf("expired: %+v", page)
	}
	var did []string
	for _, row := range r.audit() {
		did = append(did, row.Action+" "+row.ObjectName)
		if strings.Contains(row.Before+row.After, "zoojoin_") {
			t.Errorf("the token is in the audit log: %+v", row)
		}
	}
	if strings.Join(did, ", ") != "delete-join-token builder-2, create-join-token builder-2, create-join-token builder" {
		t.Errorf("audit log: %v", did)
	}
}
