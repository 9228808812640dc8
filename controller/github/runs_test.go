package github

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestRerunAndCancel(t *testing.T) {
	t.Parallel()
	const rerun, cancel = "POST /repos/acme/app/actions/jobs/5/rerun", "POST /repos/acme/app/actions/runs/6/cancel"
	for _, op := range []struct {
		name, route string
		do          func(*Client, context.Context, string) error
		done        int
	}{
		{"rerun", rerun, func(c *Client, ctx context.Context, repo string) error { return c.RerunJob(ctx, repo, 5) }, 201},
		{"cancel", cancel, func(c *Client, ctx context.Context, repo string) error { return c.CancelRun(ctx, repo, 6) }, 202},
	} {
		for _, tt := range []struct {
			name   string
			answer http.HandlerFunc
			class  error
			reason string
		}{
			{"done", answers(op.done, map[string]any{}), nil, ""},
			{"in no state for it", answers(403, message("This workflow is already running")), ErrRefused, "This workflow is already running"},
			{"over already", answers(409, message("Cannot cancel a workflow run that is completed.")), ErrRefused, "Cannot cancel"},
			{"without the permission", answers(403, message("Resource not accessible by integration")), ErrUnauthorized, "Resource not accessible"},
			{"gone", answers(404, message("Not Found")), ErrNotFound, "Not Found"},
			{"lost", answers(502, nil), ErrUnknown, ""},
			{"too old", answers(422, message("Unable to retry this workflow run because it was created over a month ago")), ErrRefused, "over a month ago"},
		} {
			t.Run(op.name+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				s := newScripted(t)
				s.on(op.route, tt.answer)
				err := op.do(s.client(), t.Context(), "acme/app")
				if !errors.Is(err, tt.class) {
					t.Fatalf("got %v, want %v", err, tt.class)
				}
				if call, ok := errors.AsType[*CallError](err); ok && !strings.Contains(call.Reason, tt.reason) {
					t.Errorf("the reason is %q, want %q", call.Reason, tt.reason)
				}
				if n := len(s.calls()); n != 1 {
					t.Errorf("asked %d times: %v", n, s.calls())
				}
			})
		}
		if err := op.do(newScripted(t).client(), t.Context(), "acme/../x"); err == nil {
			t.Errorf("%s of no repository", op.name)
		}
	}
	s := newScripted(t)
	s.on(rerun, answers(429, message("slow down"), "Retry-After: 60"))
	limit, ok := errors.AsType[*LimitError](s.client().RerunJob(t.Context(), "acme/app", 5))
	if !ok || time.Until(limit.Until) < 30*time.Second {
		t.Errorf("the limit is %+v", limit)
	}
}
