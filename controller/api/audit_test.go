package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
)

func TestTheAuditLogIsPagedAndFiltered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ada := r.user("ada", over(auth.Admin))
	admin, other := r.tokenOf(ada, "*"), r.as("bob", over(auth.Admin))
	began := r.now.now()
	for i := range 5 {
		r.now.step(time.Minute)
		r.call(admin, "PATCH", "/api/v1/pools/"+r.seed.Pool.ID, map[string]any{"max": i + 1}).want(200)
	}
	r.now.step(time.Minute)
	r.call(other, "POST", "/api/v1/join-tokens", map[string]any{"host_name": "h"}).want(201)
	seqs := func(query string) string {
		var out []string
		cursor := ""
		for {
			page := into[api.Page[api.AuditEntry]](r.call(admin, "GET", "/api/v1/audit?limit=2&"+query+"&cursor="+cursor, nil).want(200))
			if len(page.Items) > 2 {
				t.Fatalf("a page of %d", len(page.Items))
			}
			for _, e := range page.Items {
				out = append(out, fmt.Sprint(e.Seq))
			}
			if cursor = page.NextCursor; cursor == "" {
				return strings.Join(out, " ")
			}
		}
	}
	at := func(minutes int) string {
		return url.QueryEscape(began.Add(time.Duration(minutes) * time.Minute).Format(time.RFC3339))
	}
	first := into[api.Page[api.AuditEntry]](r.call(admin, "GET", "/api/v1/audit", nil).want(200))
	newest := first.Items[0]
	for query, want := range map[string]string{
		"":                                   "6 5 4 3 2 1",
		"object_kind=pool":                   "5 4 3 2 1",
		"object_id=" + r.seed.Pool.ID:        "5 4 3 2 1",
		"action=create-join-token":           "6",
		"actor_id=" + newest.ActorID:         "6",
		"after=4":                            "6 5",
		"since=" + at(4):                     "6 5 4",
		"until=" + at(3):                     "2 1",
		"since=" + at(2) + "&until=" + at(4): "3 2",
	} {
		if got := seqs(query); got != want {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
	}
	e := first.Items[1]
	before, _ := json.Marshal(e.Before)
	if e.Action != "update-pool" || e.ActorKind != "token" || !strings.HasPrefix(e.ActorName, "ada/") || !strings.Contains(string(before), `"max":4`) ||
		e.PrevHash != first.Items[2].Hash || len(e.Hash) != 64 {
		t.Errorf("entry: %+v", e)
	}
	if newest.Before != nil || newest.After == nil {
		t.Errorf("a create: %+v", newest)
	}
	r.check([]rights{
		{"a bad cursor", admin, "GET", "/api/v1/audit?cursor=x", nil, 422},
		{"a bad time", admin, "GET", "/api/v1/audit?since=yesterday", nil, 422},
		{"an operator", r.as("olga", over(auth.Operator)), "GET", "/api/v1/audit", nil, 403},
		{"an admin of an installation", r.as("ivo", overInstallation(auth.Admin, r.seed.Installation.ID)), "GET", "/api/v1/audit", nil, 403},
		{"nor does one verify it", r.as("ida", overInstallation(auth.Admin, r.seed.Installation.ID)), "GET", "/api/v1/audit/verification", nil, 403},
	})
	v := into[api.AuditVerification](r.call(admin, "GET", "/api/v1/audit/verification", nil).want(200))
	if !v.OK || v.Entries != 6 || v.Head != newest.Hash {
		t.Errorf("verification: %+v", v)
	}
}
