package protocol

import (
	"context"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// nobody is a controller that has nothing to say.
type nobody struct{}

func (nobody) Join(context.Context, JoinRequest) (JoinResponse, error) { return JoinResponse{}, nil }
func (nobody) Heartbeat(context.Context, Credential, Heartbeat) (HeartbeatResponse, error) {
	return HeartbeatResponse{}, nil
}
func (nobody) Poll(_ context.Context, _ Credential, wait time.Duration) (*Task, error) {
	if wait < 0 || wait > MaxWait {
		return nil, io.ErrUnexpectedEOF
	}
	return nil, nil
}
func (nobody) Result(context.Context, Credential, TaskResult) error { return nil }
func (nobody) Report(context.Context, Credential, []RunnerReport) (ReportResponse, error) {
	return ReportResponse{}, nil
}
func (nobody) SendLogs(_ context.Context, _ Credential, _ string, r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

func TestRequestsThatAreRefused(t *testing.T) {
	t.Parallel()
	h := Handler(nobody{})
	for name, tt := range map[string]struct {
		method, path, auth, kind, body string
		want                           int
	}{
		"good":               {"POST", PathResult, "Bearer t", "application/json; charset=utf-8", "{}", http.StatusOK},
		"no credential":      {"POST", PathResult, "", "application/json", "{}", http.StatusUnauthorized},
		"another scheme":     {"POST", PathResult, "Basic dDp0", "application/json", "{}", http.StatusUnauthorized},
		"an empty token":     {"POST", PathResult, "Bearer ", "application/json", "{}", http.StatusUnauthorized},
		"a form":             {"POST", PathResult, "Bearer t", "application/x-www-form-urlencoded", "{}", http.StatusBadRequest},
		"no JSON":            {"POST", PathResult, "Bearer t", "application/json", "{", http.StatusBadRequest},
		"too much":           {"POST", PathResult, "Bearer t", "application/json", `{"error":"` + strings.Repeat("x", MaxBody) + `"}`, http.StatusBadRequest},
		"a wait of a word":   {"GET", PathTasks + "?wait=long", "Bearer t", "", "", http.StatusBadRequest},
		"a wait below none":  {"GET", PathTasks + "?wait=-1", "Bearer t", "", "", http.StatusBadRequest},
		"a wait for ever":    {"GET", PathTasks + "?wait=Inf", "Bearer t", "", "", http.StatusOK},
		"the wrong method":   {"GET", PathResult, "Bearer t", "", "", http.StatusMethodNotAllowed},
		"a path that is not": {"GET", "/api/v1/agent/nothing", "Bearer t", "", "", http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body))
			r.Header.Set(HeaderHost, "hst_1")
			if tt.auth != "" {
				r.Header.Set("Authorization", tt.auth)
			}
			r.Header.Set("Content-Type", tt.kind)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != tt.want {
				t.Errorf("answered %d, want %d: %s", w.Code, tt.want, w.Body)
			}
		})
	}
}

func TestSecondsBeyondADurationDoNotWrap(t *testing.T) {
	t.Parallel()
	for s, want := range map[Seconds]time.Duration{
		1e300: math.MaxInt64, -1e300: math.MinInt64, 0.5: time.Second / 2, SecondsOf(time.Hour): time.Hour,
	} {
		if got := s.Duration(); got != want {
			t.Errorf("%g seconds are %d, want %d", s, got, want)
		}
	}
}
