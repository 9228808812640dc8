package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/relay"
)

// A stream of events says something this often, and asks as often whether its viewer still may see it.
const streamPulse = 15 * time.Second

// streamWrite is how long a viewer's connection may take what is written to it. The relay itself never waits.
const streamWrite = 30 * time.Second

// LogChunk is the data of a log event: a piece of a runner's output, cut anywhere but in the middle of a character.
type LogChunk struct {
	Text string `json:"text" doc:"UTF-8; bytes that are none are replaced"`
}

// LogLost is the data of a lost event: output that this viewer was too slow for.
type LogLost struct {
	Bytes int64 `json:"bytes"`
}

// LogEnd is the data of the last event.
type LogEnd struct {
	Reason  string `json:"reason" enum:"ended,gone,broken,failed" doc:"Whether it is worth watching again: broken is"`
	Message string `json:"message" doc:"A sentence"`
}

// describeStream adds an operation that answers with server-sent events to the API's description: raw handlers are not in it by
// themselves. Each event's data is of its type, in JSON.
func (s *Server) describeStream(id string, params []*huma.Param, events map[string]any) {
	op := s.operation(mustFind(id))
	op.Parameters = append(op.Parameters, params...)
	schemas := s.api.OpenAPI().Components.Schemas
	var says []string
	for _, name := range slices.Sorted(maps.Keys(events)) {
		ref := schemas.Schema(reflect.TypeOf(events[name]), true, name)
		says = append(says, fmt.Sprintf("event %s with a %s", name, strings.TrimPrefix(ref.Ref, "#/components/schemas/")))
	}
	op.Description += " Server-sent events: " + strings.Join(says, ", ") + "."
	op.Responses = map[string]*huma.Response{
		"200":     {Description: "The events, as they come", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString}}}},
		"default": {Description: "Error", Content: map[string]*huma.MediaType{"application/problem+json": {Schema: schemas.Schema(reflect.TypeFor[Problem](), true, "")}}},
	}
	op.Errors = nil
	s.api.OpenAPI().AddOperation(&op)
}

func (s *Server) watchRunnerLogs(w http.ResponseWriter, r *http.Request) {
	g := mustFind("watch-runner-logs")
	row, err := s.store.Runner(r.Context(), chi.URLParam(r, "id"))
	if err != nil {
		s.writeProblem(w, r, s.fail(r.Context(), g, err))
		return
	}
	v, err := s.fleet.WatchLogs(r.Context(), row)
	if errors.Is(err, relay.ErrFull) {
		p := problem(http.StatusServiceUnavailable, "As many runners are being watched, or this one by as many viewers, as can be.", "Try again in a while.")
		p.retryAfter = int(streamPulse.Seconds())
		s.writeProblem(w, r, p)
		return
	}
	if err != nil {
		s.writeProblem(w, r, s.fail(r.Context(), g, err))
		return
	}
	defer v.Close()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // for a proxy that would gather
	w.WriteHeader(http.StatusOK)
	out := sse{w: w, rc: http.NewResponseController(w)}
	if out.comment("watching") != nil {
		return
	}
	s.relayLogs(r, g, v, out)
}

// relayLogs writes events until the stream ends, or its viewer is gone or may not see it any more.
func (s *Server) relayLogs(r *http.Request, g auth.Guard, v *relay.Viewer, out sse) {
	pulse := time.NewTicker(streamPulse)
	defer pulse.Stop()
	var text utf8Cutter
	for {
		ctx, cancel := context.WithTimeout(r.Context(), streamPulse)
		e, err := v.Next(ctx)
		cancel()
		if r.Context().Err() != nil {
			return
		}
		select {
		case <-pulse.C:
			if !s.stillMay(r, g) || out.comment("still there") != nil {
				return
			}
		default:
		}
		if err != nil {
			continue // a pulse without news
		}
		if out.logEvent(e, &text) != nil || e.Kind == relay.TheEnd {
			return
		}
	}
}

// logEvent writes one event.
func (o sse) logEvent(e relay.Event, text *utf8Cutter) error {
	switch e.Kind {
	case relay.Log:
		if t := text.cut(e.Data); t != "" {
			return o.event("log", LogChunk{t})
		}
		return nil
	case relay.Lost:
		rest := int64(len(text.rest)) // half a character: its other half is lost
		text.rest = nil
		return o.event("lost", LogLost{e.Lost + rest})
	case relay.TheEnd:
		if t := text.flush(); t != "" {
			if err := o.event("log", LogChunk{t}); err != nil {
				return err
			}
		}
		return o.event("end", LogEnd{string(e.End.Reason), e.End.Message})
	}
	return nil
}

// stillMay asks again about a stream that has been admitted: sessions end, tokens are revoked, grants change.
func (s *Server) stillMay(r *http.Request, g auth.Guard) bool {
	ctx := r.Context()
	if principal(ctx).Kind != auth.KindLocal {
		who, err := s.who(r)
		if err != nil {
			return false
		}
		ctx = context.WithValue(ctx, principalKey{}, who)
	}
	_, refused := s.admit(ctx, g, func(name string) string { return chi.URLParam(r, name) })
	return refused == nil
}

// sse writes server-sent events.
type sse struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (o sse) write(format string, args ...any) error {
	_ = o.rc.SetWriteDeadline(time.Now().Add(streamWrite)) // where the connection has none, there is nothing to bound
	if _, err := fmt.Fprintf(o.w, format, args...); err != nil {
		return err
	}
	return o.rc.Flush()
}

func (o sse) comment(text string) error { return o.write(": %s\n\n", text) }

func (o sse) event(name string, data any) error {
	raw, err := json.Marshal(data) // on one line
	if err != nil {
		return err
	}
	return o.write("event: %s\ndata: %s\n\n", name, raw)
}

// utf8Cutter cuts a stream of bytes between characters.
type utf8Cutter struct{ rest []byte }

// cut returns what is whole, and keeps the beginning of a character for the next time.
func (c *utf8Cutter) cut(b []byte) string {
	all := slices.Concat(c.rest, b)
	end := len(all)
	for back := 1; back < utf8.UTFMax && back <= len(all); back++ {
		if at := len(all) - back; utf8.RuneStart(all[at]) {
			if !utf8.FullRune(all[at:]) {
				end = at
			}
			break
		}
	}
	c.rest = append([]byte(nil), all[end:]...)
	return string(all[:end])
}

// flush returns what is left at the end.
func (c *utf8Cutter) flush() string {
	t := string(c.rest)
	c.rest = nil
	return t
}
