package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

const (
	// worldSize is how many requests one world takes: they delete what they find.
	worldSize = 400
	// claims are sent to every fleetless world's claim first, before there are users.
	claims = 30
	// streamFor is how long a stream is followed once it has begun.
	streamFor = 5 * time.Millisecond
	// repeats: one request in so many is sent twice, as after a lost answer.
	repeats = 20
)

// runner sends requests to one world after another.
type runner struct {
	report
	ctx    context.Context
	seed   uint64
	r      *rand.Rand
	d      description
	w      *world
	g      *generator
	found  func(finding)
	why    string // an operation whose refusals are told
	events *recorder
	audit  int64 // the newest row that was searched
	pickup []caller
}

func run(ctx context.Context, seed uint64, requests int, why string, found func(finding)) (report, error) {
	r := &runner{ctx: ctx, seed: seed, why: why, r: rand.New(rand.NewPCG(seed, 0)), found: found, events: &recorder{}} //nolint:gosec // repeatable by design, guards nothing
	r.statuses = map[string]map[int]int{}
	for n := 0; r.Requests < requests; n++ {
		if err := ctx.Err(); err != nil {
			return r.report, err
		}
		if err := r.world(n, min(worldSize, requests-r.Requests)); err != nil {
			return r.report, err
		}
	}
	return r.report, nil
}

// world makes a world, sends it so many requests, and ends it.
func (r *runner) world(n, requests int) (err error) {
	if r.w, err = newWorld(r.ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.w.close()) }()
	if n%2 == 1 {
		r.w.loops(r.ctx)
	}
	if r.d.operations == nil {
		raw, err := r.w.server.OpenAPI().MarshalJSON()
		if err != nil {
			return err
		}
		if r.d, err = describe(raw); err != nil {
			return err
		}
		if err := r.addRaw(); err != nil {
			return err
		}
		for _, op := range r.d.operations {
			r.statuses[op.ID] = map[int]int{}
		}
	}
	r.g = &generator{d: r.d, r: r.r, known: r.w.fits(), plant: r.plant}
	r.audit = 0
	r.pickup = r.weighted()
	end := r.Requests + requests
	claim := r.d.find("claim-fleet")
	for range min(claims, requests/2) {
		if n%4 != 3 || claim == nil {
			break
		}
		if err := r.send(r.g.call(*claim)); err != nil {
			return err
		}
	}
	if err := r.w.people(r.ctx); err != nil {
		return err
	}
	r.pickup = r.weighted()
	r.g.known["claim-fleet.token"] = nil
	if err := r.look(); err != nil {
		return err
	}
	stop := r.listen()
	defer stop()
	for r.Requests < end {
		c := r.g.next()
		if c.op.Streams && !r.g.one(3) {
			continue
		}
		if err := r.send(c); err != nil {
			return err
		}
		if r.Requests < end && r.g.one(repeats) {
			if err := r.send(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// look reads every list once, so that there are IDs to ask for.
func (r *runner) look() error {
	for _, op := range r.d.operations {
		if op.Method != http.MethodGet || strings.Contains(op.Path, "{") || op.Streams {
			continue
		}
		resp, err := r.do(call{op: op, path: op.Path}, caller{name: "owner", local: true})
		if err != nil {
			return err
		}
		r.g.learn(op, resp.Body.Bytes())
	}
	return nil
}

func (r *runner) weighted() (out []caller) {
	for _, c := range r.w.who {
		for range c.weight {
			out = append(out, c)
		}
	}
	return out
}

// plant makes a secret for a field, or now and then gives one that is right.
func (r *runner) plant(op, field string) string {
	if list := r.g.known[op+"."+field]; len(list) > 0 && !r.g.one(3) {
		return list[r.r.IntN(len(list))]
	}
	right := ""
	app := r.w.github.App()
	switch field {
	case "password", "current":
		right = r.w.password
	case "private_key":
		right = string(app.PrivateKeyPEM)
	}
	if right != "" && (op == "sign-in" || field == "current" || field == "private_key") && !r.g.one(3) {
		return right
	}
	return r.w.watch.fresh(field + " of " + op)
}

// send makes one request as somebody, and looks at all that came of it.
func (r *runner) send(c call) error {
	who := r.pickup[r.r.IntN(len(r.pickup))]
	r.sign(&c)
	resp, err := r.do(c, who)
	if err != nil {
		return err
	}
	r.Requests++
	r.statuses[c.op.ID][resp.Code]++
	body := resp.Body.Bytes()
	if resp.Code >= 500 {
		r.Status5xx++
		r.say(c, who, fmt.Sprintf("status %d", resp.Code), string(body)+"\nlog: "+string(r.w.log.take()))
	}
	if r.why != "" && c.op.ID == r.why && resp.Code >= 400 {
		r.say(c, who, fmt.Sprintf("status %d, as asked for", resp.Code), string(body))
	}
	r.searchAnswer(c, who, resp)
	r.search(c, who, "in the log", r.w.log.take())
	heard := r.events.take()
	r.heard += len(heard)
	r.search(c, who, "in the stream of events", heard)
	if err := r.searchAudit(c, who); err != nil {
		return err
	}
	if resp.Code < 300 {
		r.g.learn(c.op, body)
		r.follow(c, body)
	}
	return nil
}

func (r *runner) say(c call, who caller, what, answer string) {
	r.found(finding{r.seed, r.Requests, what, who.name, c, answer})
}

// do makes a request, through the same handler that serves the network.
func (r *runner) do(c call, who caller) (*httptest.ResponseRecorder, error) {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, c.op.Method, "http://127.0.0.1:8080"+c.path, bytes.NewReader(c.body))
	if err != nil {
		return nil, fmt.Errorf("cannot make request %d, %s: %w", r.Requests, c.path, err)
	}
	req.RequestURI = req.URL.RequestURI()
	req.RemoteAddr = fmt.Sprintf("192.0.2.%d:1234", r.Requests%250+1)
	maps.Copy(req.Header, who.header)
	for k, v := range c.headers {
		req.Header.Set(k, v)
	}
	if len(c.body) > 0 && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	h := r.w.server.Handler()
	if who.local {
		h = r.w.server.LocalHandler()
	}
	resp := httptest.NewRecorder()
	if c.op.Streams {
		h.ServeHTTP(&follower{ResponseRecorder: resp, leave: cancel}, req)
	} else {
		h.ServeHTTP(resp, req)
	}
	return resp, nil
}

// follower goes away a moment after a stream has begun.
type follower struct {
	*httptest.ResponseRecorder
	leave context.CancelFunc
	begun sync.Once
}

// WriteHeader implements http.ResponseWriter.
func (f *follower) WriteHeader(status int) {
	f.begun.Do(func() { time.AfterFunc(streamFor, f.leave) })
	f.ResponseRecorder.WriteHeader(status)
}

// listener is an answer without an end that is kept until it is searched.
type listener struct {
	*recorder
	header http.Header
}

// Header implements http.ResponseWriter.
func (l *listener) Header() http.Header { return l.header }

// WriteHeader implements http.ResponseWriter.
func (l *listener) WriteHeader(int) {}

// Flush implements http.Flusher.
func (l *listener) Flush() {}

// listen follows the world's events as the machine's owner, who sees all of them, until stop is called.
func (r *runner) listen() (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan struct{})
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, mustFind("watch-events").Path, http.NoBody)
	h := r.w.server.LocalHandler()
	go func() {
		defer close(done)
		h.ServeHTTP(&listener{r.events, http.Header{}}, req)
	}()
	return func() {
		cancel()
		<-done
		c := call{op: operation{ID: "watch-events", Method: http.MethodGet}, path: req.URL.Path}
		text := r.events.take()
		r.heard += len(text)
		r.search(c, caller{name: "owner"}, "in the stream of events", text)
	}
}

func mustFind(id string) auth.Guard {
	g, ok := auth.Find(id)
	if !ok {
		panic("fuzzapi: there is no operation " + id)
	}
	return g
}

// searchAnswer looks for secrets in an answer. A new secret may be in the one answer that shows it.
func (r *runner) searchAnswer(c call, who caller, resp *httptest.ResponseRecorder) {
	var text bytes.Buffer
	_ = resp.Header().Write(&text) // to memory
	text.Write(resp.Body.Bytes())
	raw := text.Bytes()
	if resp.Code < 300 {
		for _, secret := range showsOnce(c.op.ID, resp) {
			replayed := resp.Header().Get("Idempotency-Replayed") != ""
			if !r.w.watch.knows(secret) || replayed || c.op.ID == "agent-api" {
				raw = bytes.ReplaceAll(raw, []byte(secret), nil)
			}
			r.w.watch.token("what "+c.op.ID+" made", secret)
		}
	}
	if c.knowsState != "" {
		raw = bytes.ReplaceAll(raw, []byte(c.knowsState), nil) // who made the request has it
	}
	r.search(c, who, "in the answer", raw)
}

func (r *runner) search(c call, who caller, where string, text []byte) {
	what, secret := r.w.watch.find(text)
	if what == "" {
		return
	}
	r.Leaks++
	at := bytes.Index(text, []byte(secret))
	r.say(c, who, what+" is "+where, string(text[max(0, at-300):min(len(text), at+300)]))
}

// searchAudit looks at the rows that were written since.
func (r *runner) searchAudit(c call, who caller) error {
	rows, err := r.w.store.AuditRows(r.ctx, store.AuditFilter{After: r.audit})
	if err != nil {
		return err
	}
	for _, row := range rows {
		r.audit = max(r.audit, row.Seq)
		r.search(c, who, "in the audit log", fmt.Appendf(nil, "%+v", row))
	}
	return nil
}

// addRaw adds the routes that describe nothing of themselves, as far as they are served. That every row of the table of routes is
// served is another test's.
func (r *runner) addRaw() error {
	for _, g := range auth.Guards {
		if r.d.find(g.ID) != nil {
			continue
		}
		op := operation{ID: g.ID, Method: g.Method, Path: g.Path, Streams: strings.HasSuffix(g.ID, "-logs") || g.ID == "watch-events"}
		for _, name := range []string{"id", "state"} {
			if strings.Contains(g.Path, "{"+name+"}") {
				op.Params = append(op.Params, param{Name: name, In: "path", Required: true})
			}
		}
		resp, err := r.do(call{op: op, path: g.Path}, caller{local: true})
		if err != nil {
			return err
		}
		if !strings.Contains(resp.Body.String(), "There is nothing at") {
			r.d.operations = append(r.d.operations, op)
		}
	}
	return nil
}

func (d *description) find(id string) *operation {
	for i := range d.operations {
		if d.operations[i].ID == id {
			return &d.operations[i]
		}
	}
	return nil
}
