package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Problem is an error answer, as RFC 9457 has it: application/problem+json.
type Problem struct { //nolint:errname // the name that the RFC gives it, and so the schema's
	Type      string              `json:"type" doc:"Names the kind of problem; about:blank when the status says it all" default:"about:blank"`
	Title     string              `json:"title" doc:"The status in words"`
	Status    int                 `json:"status" doc:"The HTTP status"`
	Detail    string              `json:"detail" doc:"What happened, to what"`
	Fix       string              `json:"fix,omitempty" doc:"What to do next"`
	RequestID string              `json:"request_id,omitempty" doc:"Names this request in the controller's log"`
	Errors    []*huma.ErrorDetail `json:"errors,omitempty" doc:"Which parts of the request are wrong"`

	retryAfter int // seconds
}

// Error implements error.
func (p *Problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="zoomies"`)
	}
	return h
}

func problem(status int, detail, fix string) *Problem {
	return &Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Fix: fix}
}

// after says in how many seconds to try again.
func (p *Problem) after(seconds int) *Problem {
	p.retryAfter = seconds
	return p
}

func notFound(kind, id string) *Problem {
	return problem(http.StatusNotFound, fmt.Sprintf("There is no %s %.64s.", kind, id), "List what there is to see the IDs.")
}

func forbidden(g auth.Guard, who auth.Principal) *Problem {
	if !who.InScope(g.Area, g.Writes()) {
		verb := "read"
		if g.Writes() {
			verb = "write"
		}
		return problem(http.StatusForbidden, fmt.Sprintf("This API token's scopes do not include %s:%s.", g.Area, verb),
			"Make a token with that scope.")
	}
	return problem(http.StatusForbidden, fmt.Sprintf("%s needs the role %s here, and %s does not have it.", g.ID, g.Role, who.Name),
		"Ask an admin of the fleet for a grant.")
}

// invalid is a request whose body is well-formed and wrong.
func invalid(where, format string, args ...any) *Problem {
	what := fmt.Sprintf(format, args...)
	p := problem(http.StatusUnprocessableEntity, strings.ToUpper(what[:1])+what[1:]+".", "Mend the request and send it again; nothing was changed.")
	p.Errors = []*huma.ErrorDetail{{Location: where, Message: what}}
	return p
}

var installErrors sync.Once

// humaErrors has huma speak of its own errors (a body that does not fit its schema, and the like) as problems.
func humaErrors() {
	installErrors.Do(func() {
		huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
			p := problem(status, strings.ToUpper(msg[:min(1, len(msg))])+msg[min(1, len(msg)):]+".", "")
			for _, err := range errs {
				if err == nil {
					continue
				}
				d := &huma.ErrorDetail{Message: err.Error()}
				var with huma.ErrorDetailer
				if errors.As(err, &with) {
					d = with.ErrorDetail()
				}
				// What was sent is not sent back: it may be a secret in the wrong place.
				p.Errors = append(p.Errors, &huma.ErrorDetail{Message: d.Message, Location: d.Location})
			}
			if status >= 400 && status < 500 {
				p.Fix = "Mend the request and send it again; nothing was changed."
			}
			return p
		}
		plain := huma.NewError
		huma.NewErrorWithContext = func(hctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
			err := plain(status, msg, errs...)
			if p, ok := err.(*Problem); ok {
				return p.of(hctx.Context())
			}
			return err
		}
	})
}

// fail turns an error of a handler into an answer. What a caller can do nothing about goes to the log.
func (s *Server) fail(ctx context.Context, g auth.Guard, err error) *Problem {
	var p *Problem
	switch {
	case errors.As(err, &p):
	case errors.Is(err, store.ErrNotFound):
		p = problem(http.StatusNotFound, sentence(err), "List what there is to see the IDs.")
	case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrTransition):
		p = problem(http.StatusConflict, sentence(err), "Look at it as it is now, and decide again; nothing was changed.")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, store.ErrClosed):
		p = problem(http.StatusServiceUnavailable, "The request was not carried out: the controller is stopping, or you went away.", "Send it again.")
	default:
		s.log.Error("a request failed", "operation", g.ID, "request", requestOf(ctx).id, "err", err)
		p = problem(http.StatusInternalServerError, "The controller could not carry out the request.",
			"Look for this request_id in the controller's log.")
	}
	return p.of(ctx)
}

// of names the request.
func (p *Problem) of(ctx context.Context) *Problem {
	p.RequestID = requestOf(ctx).id
	return p
}

// sentence makes an error one. The database's own words are not for callers.
func sentence(err error) string {
	text, _, _ := strings.Cut(err.Error(), ": constraint failed")
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

func (s *Server) writeProblem(w http.ResponseWriter, r *http.Request, p *Problem) {
	p = p.of(r.Context())
	maps.Copy(w.Header(), p.GetHeaders())
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client is gone: nothing to do
}

func (s *Server) writeHumaProblem(hctx huma.Context, p *Problem) {
	r, w := humaUnwrap(hctx)
	s.writeProblem(w, r, p)
}
