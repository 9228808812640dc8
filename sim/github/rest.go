package github

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// who says whose token a route takes.
type who int

const (
	anybody who = iota
	theApp
	anInstallation
)

// call is one request on its way through a handler. Handlers run under Server.mu.
type call struct {
	r    *http.Request
	body []byte
	inst *installation // for routes of an installation
	now  time.Time
}

// answer is what a handler gives back; body nil is none.
type answer struct {
	status int
	body   any
	header http.Header
}

// route is one line of the REST API.
type route struct {
	pattern  string
	who      who
	resource string
	free     bool // not charged
	handle   func(s *Server, c *call) answer
}

// problem is an error in GitHub's form.
func problem(status int, message, doc string) answer {
	return answer{status: status, body: map[string]any{"message": message, "documentation_url": doc, "status": strconv.Itoa(status)}}
}

const docREST = "https://docs.github.com/rest"

func notFound() answer { return problem(http.StatusNotFound, "Not Found", docREST) }

func (s *Server) rest() http.Handler {
	mux := http.NewServeMux()
	for _, rt := range routes {
		mux.HandleFunc(rt.pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, rt) })
	}
	lost := route{pattern: "unknown", who: anybody, resource: resourceCore, handle: func(*Server, *call) answer { return notFound() }}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, lost) })
	return mux
}

// serve takes one request through latency, faults, authentication, limits and its handler.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, rt route) {
	body, err := readAll(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	s.mu.Lock()
	s.physics.requests[rt.pattern]++
	s.physics.concurrent++
	s.physics.peak = max(s.physics.peak, s.physics.concurrent)
	c := &call{r: r, body: body, inst: s.installationOf(bearer(r))}
	b := bucket{resource: rt.resource}
	if c.inst != nil {
		b.installation = c.inst.id
	}
	f := s.faultFor(r.Method, r.URL.Path, b.installation)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.physics.concurrent--
		s.mu.Unlock()
	}()

	wait := s.opts.Latency
	if f != nil {
		wait += f.Delay
	}
	if !s.pause(r, wait) {
		panic(http.ErrAbortHandler)
	}
	if f != nil && f.Drop == DropBefore {
		panic(http.ErrAbortHandler)
	}

	h := w.Header()
	s.mu.Lock()
	c.now = s.now()
	var a answer
	if f != nil && f.Status != 0 {
		a = f.answer()
	} else {
		a = s.handle(c, rt, b)
	}
	s.rateHeaders(h, b)
	h.Set("X-GitHub-Request-Id", strings.ToUpper(strings.ReplaceAll(s.guid(), "-", "")[:20]))
	if f == nil || f.Drop != DropAfter {
		s.physics.responses[a.status]++
	}
	s.mu.Unlock()

	if f != nil && f.Drop == DropAfter {
		panic(http.ErrAbortHandler)
	}
	h.Set("Server", "github.com")
	h.Set("X-GitHub-Media-Type", "github.v3; format=json")
	h.Set("X-GitHub-Api-Version-Selected", "2022-11-28")
	for k, v := range a.header {
		h[http.CanonicalHeaderKey(k)] = v
	}
	var out []byte
	if a.body != nil {
		h.Set("Content-Type", "application/json; charset=utf-8")
		if out, err = json.Marshal(a.body); err != nil {
			s.log.Error("cannot write an answer", "route", rt.pattern, "error", err)
			http.Error(w, "cannot write the answer", http.StatusInternalServerError)
			return
		}
	}
	if s.opts.observe != nil {
		s.opts.observe(r, a.status, h, out)
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(out) // a client that left does not matter
}

// handle authenticates, charges and answers. Called under mu.
func (s *Server) handle(c *call, rt route, b bucket) answer {
	token := bearer(c.r)
	switch rt.who {
	case theApp:
		if token == "" {
			return problem(http.StatusUnauthorized, "A JSON web token could not be decoded", docREST)
		}
		if err := s.checkAppJWT(token, c.now); err != nil {
			return problem(http.StatusUnauthorized, err.Error(), docREST)
		}
	case anInstallation:
		switch {
		case token == "":
			return problem(http.StatusUnauthorized, "Requires authentication", docREST)
		case c.inst == nil:
			return problem(http.StatusUnauthorized, "Bad credentials", docREST)
		}
	case anybody:
		if token != "" && c.inst == nil && s.checkAppJWT(token, c.now) != nil {
			return problem(http.StatusUnauthorized, "Bad credentials", docREST)
		}
	}
	if !rt.free {
		if refused := s.admit(b, c.r.Method); refused != nil {
			return *refused
		}
	}
	return rt.handle(s, c)
}

// pause waits; false means that the client or the server has gone.
func (s *Server) pause(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
	case <-s.ctx.Done():
	}
	return false
}

// page cuts a list as the request asks and says the neighbours in a Link header. all is not changed.
func page[T any](c *call, base string, all []T) ([]T, http.Header) {
	q := c.r.URL.Query()
	per, n := 30, 1
	if v, err := strconv.Atoi(q.Get("per_page")); err == nil && v > 0 {
		per = min(v, 100)
	}
	if v, err := strconv.Atoi(q.Get("page")); err == nil && v > 0 {
		n = v
	}
	last := max(1, (len(all)+per-1)/per)
	from := min((n-1)*per, len(all))
	part := all[from:min(from+per, len(all))]
	var links []string
	link := func(p int, rel string) {
		q.Set("page", strconv.Itoa(p))
		links = append(links, "<"+base+c.r.URL.Path+"?"+q.Encode()+`>; rel="`+rel+`"`)
	}
	if n > 1 {
		link(min(n-1, last), "prev")
	}
	if n < last {
		link(n+1, "next")
		link(last, "last")
	}
	if n > 1 {
		link(1, "first")
	}
	if len(links) == 0 {
		return part, nil
	}
	return part, http.Header{"Link": {strings.Join(links, ", ")}}
}
