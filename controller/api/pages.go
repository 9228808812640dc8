package api

import (
	"context"
	"strconv"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// newestFirst is the one order of lists that are cut in the database.
const newestFirst = "newest"

// after is where a list that is cut in the database goes on.
func (p PageParams) after() (store.After, error) {
	at, err := parseCursor(p.Cursor, newestFirst)
	if err != nil || p.Cursor == "" {
		return store.After{}, err
	}
	micros, err := strconv.ParseInt(at.Key, 10, 64)
	if err != nil {
		return store.After{}, invalid("query.cursor", "the cursor is not one of this list's")
	}
	return store.After{At: time.UnixMicro(micros), ID: at.ID}, nil
}

// pageOf makes a page of rows, of which one more was read than it holds.
func pageOf[R, V any](rows []R, limit int, at func(R) store.After, view func(R) V) Page[V] {
	page := Page[V]{Items: make([]V, 0, min(limit, len(rows)))}
	for i, r := range rows {
		if i == limit {
			last := at(rows[i-1])
			page.NextCursor = cursor{newestFirst, strconv.FormatInt(last.At.UnixMicro(), 10), last.ID}.String()
			break
		}
		page.Items = append(page.Items, view(r))
	}
	return page
}

// within is what of a list the caller may see, for the database to cut. It agrees with sees.
func within(ctx context.Context) []*store.Within {
	var out []*store.Within
	for _, r := range principal(ctx).Reaches(requestOf(ctx).guard.Role) {
		out = append(out, &store.Within{Installations: r.Installations, Pools: r.Pools})
	}
	return out
}

// states turns the words of a query into states.
func states[S ~string](words []string) []S {
	out := make([]S, len(words))
	for i, w := range words {
		out[i] = S(w)
	}
	return out
}

// TimelineStep is one thing that happened.
type TimelineStep struct {
	What    string    `json:"what" enum:"queued,seen,runner_created,container_started,registered,job_started,draining,job_completed,runner_finished" doc:"What happened"`
	At      time.Time `json:"at" doc:"When; GitHub's clock for queued, job_started and job_completed of a job, the host's for container_started, else the controller's"`
	AfterMS int64     `json:"after_ms" doc:"Milliseconds since the step before"`
	Why     string    `json:"why" doc:"A sentence, where there is one"`
}

// timeline puts steps in order. Those that have no time have not happened.
func timeline(steps ...TimelineStep) []TimelineStep {
	out := []TimelineStep{}
	for _, s := range steps {
		if !s.At.IsZero() {
			out = append(out, s)
		}
	}
	sortSteps(out)
	for i := range out[min(1, len(out)):] {
		out[i+1].AfterMS = out[i+1].At.Sub(out[i].At).Milliseconds()
	}
	return out
}
