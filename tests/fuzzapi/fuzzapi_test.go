package main

import (
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A short form of `make fuzz-api`: the same seed each time, and another one each time.
func TestNoGeneratedRequestFailsOrGetsASecret(t *testing.T) {
	t.Parallel()
	for name, seed := range map[string]uint64{"fixed": 1, "random": rand.Uint64()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Logf("go run ./tests/fuzzapi -seed %d -requests %d", seed, shortRun)
			r, err := run(t.Context(), seed, shortRun, "", func(f finding) { t.Error(f) })
			if err != nil {
				t.Fatal(err)
			}
			if r.Requests != shortRun || r.Status5xx != 0 || r.Leaks != 0 {
				t.Errorf("%+v", r.result)
			}
			// So short a run does not get everywhere; but it must get somewhere, or it proves nothing.
			if missed := r.missed(); len(missed) > len(r.statuses)/3 {
				t.Errorf("%d of %d operations were never carried out: %v", len(missed), len(r.statuses), missed)
			}
		})
	}
}

const shortRun = 1200

// A search that finds nothing anywhere proves nothing: each place is given a secret here.
func TestTheSearchFindsWhatIsPlanted(t *testing.T) {
	t.Parallel()
	w, err := newWorld(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.close(); err != nil {
			t.Error(err)
		}
	})
	if err := w.people(t.Context()); err != nil {
		t.Fatal(err)
	}
	app := w.github.App()
	line := strings.Split(string(app.PrivateKeyPEM), "\n")[2]
	for what, text := range map[string]string{
		"the App's key": line, "the App's webhook secret": app.WebhookSecret, "an agent's token": w.agent, "a password": w.password,
		"a secret of another request": marker + "AAAAAAAAAAAAAAAAAAAA", "name of create-user": w.watch.fresh("name of create-user"),
	} {
		if got, _ := w.watch.find([]byte(`{"name":"` + text + `"}`)); got != what {
			t.Errorf("%s: found %q", what, got)
		}
	}
	if got, _ := w.watch.find([]byte(`{"name":"acme"}`)); got != "" {
		t.Errorf("found %q in nothing", got)
	}
	// The one answer that shows a new secret may, and no other may show it again.
	var told []string
	r := &runner{w: w, found: func(f finding) { told = append(told, f.what) }}
	made := call{op: operation{ID: "create-token"}}
	answer := func(body string) *httptest.ResponseRecorder {
		resp := httptest.NewRecorder()
		resp.WriteHeader(http.StatusCreated)
		_, _ = resp.WriteString(body)
		return resp
	}
	r.searchAnswer(made, caller{}, answer(`{"token":"zoo_0123456789012345678901234567890123456789012"}`))
	if len(told) != 0 {
		t.Errorf("a new token is a leak: %v", told)
	}
	r.searchAnswer(call{op: operation{ID: "list-tokens"}}, caller{}, answer(`{"items":["zoo_0123456789012345678901234567890123456789012"]}`))
	r.searchAnswer(made, caller{}, answer(`{"token":"zoo_0123456789012345678901234567890123456789012"}`))
	if len(told) != 2 || r.Leaks != 2 {
		t.Errorf("a token that is shown again: %v", told)
	}
}
