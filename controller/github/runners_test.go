package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMintJIT(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		scope Scope
		route string
	}{
		{org, mintRoute},
		{Scope{Repository: "acme/app"}, "POST /repos/acme/app/actions/runners/generate-jitconfig"},
	} {
		s := newScripted(t)
		var sent map[string]any
		s.on(tc.route, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_ = json.Unmarshal(body, &sent)
			reply(w, 201, map[string]any{"runner": map[string]any{"id": 23, "name": "zoomies-1"}, "encoded_jit_config": "e30="})
		})
		got, err := s.client().MintJIT(t.Context(), tc.scope, JITRequest{Name: "zoomies-1", Labels: []string{"zoomies", "zoomies-medium"}})
		if err != nil || got.RunnerID != 23 || string(got.Config.Reveal()) != "e30=" {
			t.Errorf("%+v: got %+v, %v", tc.scope, got, err)
		}
		want := map[string]any{"name": "zoomies-1", "labels": []any{"zoomies", "zoomies-medium"}, "runner_group_id": 1.0, "work_folder": "_work"}
		if diff := cmp.Diff(want, sent); diff != "" {
			t.Errorf("%+v: sent (-want +got)\n%s", tc.scope, diff)
		}
	}
}

func TestMintWithoutNameOrLabelsIsNotSent(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	for _, r := range []JITRequest{{Labels: []string{"x"}}, {Name: "r"}, {Name: "r", Labels: make([]string, 101)}} {
		if _, err := s.client().MintJIT(t.Context(), org, r); err == nil {
			t.Errorf("%+v accepted", r)
		}
	}
	if calls := s.calls(); len(calls) != 0 {
		t.Errorf("asked %v", calls)
	}
}

func hangUp(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

func TestLostAnswerToAMintIsUnknownAndAskedOnce(t *testing.T) {
	t.Parallel()
	torn := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "500")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"runner":{"id":1},"encoded_jit_`))
	}
	for name, h := range map[string]http.HandlerFunc{
		"connection closed":  hangUp,
		"torn in the middle": torn,
		"empty":              answers(201, nil),
		"not JSON": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			_, _ = w.Write([]byte("<html>"))
		},
		"no configuration":    answers(201, map[string]any{"runner": map[string]any{"id": 1}}),
		"no runner":           answers(201, map[string]any{"encoded_jit_config": "e30="}),
		"accepted, not ready": answers(202, nil),
	} {
		s := newScripted(t)
		c := s.client()
		s.on("GET /orgs/acme/actions/runners", answers(200, map[string]any{"total_count": 0, "runners": []any{}}))
		if _, err := c.ListRunners(t.Context(), org); err != nil { // so that the mint meets a connection that was used before
			t.Fatal(err)
		}
		s.on(mintRoute, h)
		if _, err := c.MintJIT(t.Context(), org, jit("r")); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: got %v", name, err)
		}
		if n := strings.Count(strings.Join(s.calls(), "\n"), "generate-jitconfig"); n != 1 {
			t.Errorf("%s: %d mints were sent", name, n)
		}
	}
}

func TestMintThatNeverLeftIsNotUnknown(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	c := s.client(func(cfg *Config) {
		hc := NewHTTPClient()
		tr := hc.Transport.(*http.Transport)
		tr.DisableKeepAlives = true // each call dials
		dials := 0
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials++; dials > 1 { // the token was had; the mint cannot connect
				return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
			}
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}
		cfg.HTTP = hc
	})
	_, err := c.MintJIT(t.Context(), org, jit("r"))
	if err == nil || errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
	// Nor is one whose caller left before its turn.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.client().MintJIT(ctx, org, jit("r")); errors.Is(err, ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// Where the transport tells nothing, the worst is assumed.
	mute := s.client(func(cfg *Config) {
		cfg.HTTP = &http.Client{Transport: muteTransport{cfg.BaseURL}}
	})
	if _, err := mute.MintJIT(t.Context(), org, jit("r")); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

type muteTransport struct{ base string }

func (m muteTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/access_tokens") {
		return &http.Response{StatusCode: http.StatusCreated, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"token":"t","expires_at":"2999-01-01T00:00:00Z"}`))}, nil
	}
	return nil, errors.New("gone")
}

func TestMintWhoseCallerGaveUpMidwayIsUnknown(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.on(mintRoute, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel()
		<-r.Context().Done()
	})
	_, err := s.client().MintJIT(ctx, org, jit("r"))
	if !errors.Is(err, ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestLostAnswersElsewhereArePlain(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.on("GET /repos/a/b/actions/jobs/5", hangUp)
	s.on("DELETE /orgs/acme/actions/runners/5", hangUp)
	s.on("POST /orgs/acme/actions/runners/registration-token", hangUp)
	c := s.client()
	for name, err := range map[string]error{
		"read":   second(c.Job(t.Context(), "a/b", 5)),
		"delete": c.DeleteRunner(t.Context(), org, 5),
		"token":  func() error { _, _, err := c.RegistrationToken(t.Context(), org); return err }(),
	} {
		if err == nil || errors.Is(err, ErrUnknown) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestRegistrationToken(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	body := map[string]any{"token": "AABF3JGZDX3P5PMEXLND6TS6FCWO6", "expires_at": "2030-01-22T12:13:35-08:00"}
	s.on("POST /orgs/acme/actions/runners/registration-token", answers(201, body))
	s.on("POST /repos/acme/app/actions/runners/registration-token", answers(201, body))
	for _, scope := range []Scope{org, {Repository: "acme/app"}} {
		token, expires, err := s.client().RegistrationToken(t.Context(), scope)
		if err != nil || string(token.Reveal()) != body["token"] || expires.Unix() != time.Date(2030, 1, 22, 20, 13, 35, 0, time.UTC).Unix() {
			t.Errorf("%+v: got %v, %v, %v", scope, token, expires, err)
		}
	}
}

func TestListRunnersReadsEveryPageOnce(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	runner := func(id int) map[string]any {
		return map[string]any{"id": id, "name": fmt.Sprintf("zoomies-%d", id), "status": "online", "busy": id == 1, "labels": []any{map[string]any{"name": "zoomies"}}}
	}
	s.on("GET /repos/acme/app/actions/runners", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("page") {
		case "1":
			answers(200, map[string]any{"total_count": 3, "runners": []any{runner(1), runner(2)}}, nextLink(s, r, 2))(w, r)
		default: // the pages shifted under us: 2 appears again
			reply(w, 200, map[string]any{"total_count": 3, "runners": []any{runner(2), runner(3)}})
		}
	})
	got, err := s.client().ListRunners(t.Context(), Scope{Repository: "acme/app"})
	if err != nil {
		t.Fatal(err)
	}
	want := []Registration{
		{ID: 1, Name: "zoomies-1", Status: "online", Busy: true, Labels: []string{"zoomies"}},
		{ID: 2, Name: "zoomies-2", Status: "online", Labels: []string{"zoomies"}},
		{ID: 3, Name: "zoomies-3", Status: "online", Labels: []string{"zoomies"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestFindRunnerComparesTheWholeName(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.on("GET /orgs/acme/actions/runners", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("name") == "" {
			t.Error("the name was not asked for")
		}
		if r.URL.Query().Get("page") == "1" { // an older server that ignores the filter
			answers(200, map[string]any{"total_count": 3, "runners": []any{map[string]any{"id": 1, "name": "zoomies-10"}, map[string]any{"id": 2, "name": "zoomies"}}}, nextLink(s, r, 2))(w, r)
			return
		}
		reply(w, 200, map[string]any{"total_count": 3, "runners": []any{map[string]any{"id": 3, "name": "zoomies-1"}}})
	})
	c := s.client()
	if got, err := c.FindRunner(t.Context(), org, "zoomies-1"); err != nil || got.ID != 3 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := c.FindRunner(t.Context(), org, "zoomies-2"); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
	// An organisation that the App cannot see says nothing of the runner.
	if _, err := c.FindRunner(t.Context(), Scope{Org: "other"}, "zoomies-1"); errors.Is(err, ErrNotFound) || !errors.Is(err, ErrUnauthorized) {
		t.Errorf("got %v", err)
	}
}

// A23: a just-in-time runner cannot remove itself, so the controller deletes by ID.
func TestDeleteRunnerByID(t *testing.T) {
	t.Parallel()
	s := newScripted(t)
	s.on("DELETE /orgs/acme/actions/runners/23", answers(204, nil))
	s.on("DELETE /repos/acme/app/actions/runners/23", answers(204, nil))
	s.on("DELETE /orgs/acme/actions/runners/24", answers(422, message("Bad request - Runner \"zoomies-24\" is still running a job\"")))
	c := s.client()
	if err := c.DeleteRunner(t.Context(), org, 23); err != nil {
		t.Error(err)
	}
	if err := c.DeleteRunner(t.Context(), Scope{Repository: "acme/app"}, 23); err != nil {
		t.Error(err)
	}
	if err := c.DeleteRunner(t.Context(), org, 24); !errors.Is(err, ErrRunnerBusy) {
		t.Errorf("got %v", err)
	}
	if err := c.DeleteRunner(t.Context(), org, 25); err != nil {
		t.Errorf("a registration that is gone: %v", err)
	}
	if err := c.DeleteRunner(t.Context(), org, 0); err == nil {
		t.Error("ID 0 accepted")
	}
}
