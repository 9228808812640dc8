package proxmox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// call is a request on its way through a method.
type call struct {
	*Server
	ctx    context.Context //nolint:containedctx // a call is one request
	method *method
	who    string
	params map[string]string
	file   *upload // an upload's file
	hit    *Injection
	upid   string // of the task that it began
}

func (c *call) get(name string) string { return c.params[name] }

func (c *call) has(name string) bool {
	_, ok := c.params[name]
	return ok
}

func (c *call) flag(name string) bool { return c.params[name] == "1" }

func (c *call) vmid() int { return atoi(c.params["vmid"]) }

func (c *call) node() *node { return c.nodes[c.params["node"]] }

func atoi(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// numberedList is an answer with a number beside the data.
type numberedList struct {
	data  any
	total int
}

type handler func(*call) (any, error)

// Request is a request that was answered, for tests.
type Request struct {
	At           time.Time
	Method, Path string
	Who          string
	Form         map[string]string // without what the path says
	Status       int               // 0: the connection was dropped
	Reason       string
}

const root = "/api2/json"

// answer answers a request.
func (s *Server) answer(req *http.Request) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &call{Server: s, ctx: req.Context()}
	path, isAPI := strings.CutPrefix(req.URL.Path, root)
	if path == "" {
		path = "/"
	}
	c.hit = s.strike(req.Method, path)
	if a, done := c.before(); done {
		s.note(c, req.Method, path, a)
		return a
	}
	data, err := c.serve(req, path, isAPI)
	a := c.after(s.finish(req, data, err))
	s.note(c, req.Method, path, a)
	return a
}

func (s *Server) note(c *call, verb, path string, a answer) {
	r := Request{At: s.clock.Now(), Method: verb, Path: path, Who: c.who, Form: c.params, Status: a.status, Reason: a.reason}
	if a.abrupt {
		r.Status = 0
	}
	s.requests = append(s.requests, r)
	s.log.Debug("request", "method", verb, "path", path, "who", c.who, "status", r.Status, "reason", a.reason)
}

func (s *Server) finish(req *http.Request, data any, err error) answer {
	if err == nil {
		out := map[string]any{"data": data}
		if l, ok := data.(numberedList); ok {
			out = map[string]any{"data": l.data, "total": l.total}
		}
		return answer{status: 200, reason: "OK", kind: jsonType, body: encode(out), close: strings.HasSuffix(req.URL.Path, "/upload")}
	}
	var f *fail
	switch {
	case errors.As(err, &f):
		return f.answer()
	case errors.Is(err, errCut):
		return answer{abrupt: true}
	}
	return answer{abrupt: true} // the client or the server went away
}

var errCut = errors.New("the client went away")

// serve goes through a request in the order in which the real one does: wire, who, which method, may they, where, is it well
// formed, and only then what the method itself finds.
func (c *call) serve(req *http.Request, path string, isAPI bool) (any, error) {
	s := c.Server
	if slices.Contains(req.TransferEncoding, "chunked") {
		return nil, bare(501, "chunked transfer encoding not supported", "chunked transfer encoding not supported")
	}
	if !verbs[req.Method] {
		return nil, bare(501, fmt.Sprintf("method '%s' not available", req.Method), "")
	}
	if err := s.pause(c.ctx, s.lat.Request, true); err != nil {
		return nil, err
	}
	if s.pmxcfs {
		return nil, bare(500, "RPCEnvironment init request failed: Unable to load access control list: Connection refused", "")
	}
	who, err := s.access.authenticate(req.Header.Get("Authorization"), s.clock.Now())
	if err != nil {
		if waited := s.pause(c.ctx, s.lat.Unauthorized, true); waited != nil {
			return nil, waited
		}
		return nil, err
	}
	c.who = who
	if !isAPI {
		return nil, bare(404, "Not Found", "")
	}
	boundary := boundaryOf(req)
	var sent map[string]value
	if boundary == "" {
		s.mu.Unlock()
		sent, err = parameters(req)
		s.mu.Lock()
		if err != nil {
			return nil, err
		}
	}
	m, vars := s.api.find(req.Method, path)
	if m == nil || handlers[m.name] == nil {
		return nil, &fail{status: 501, text: fmt.Sprintf("Method '%s %s' not implemented", req.Method, path), line: true}
	}
	c.method, c.params = m, vars
	if boundary != "" {
		return c.upload(req, boundary)
	}
	all := map[string]value{}
	for k, v := range vars {
		all[k] = value{text: v}
	}
	for k, v := range sent {
		if have, ok := all[k]; ok && have != v {
			return nil, wrongField(k, "duplicate parameter (already defined in URI) with conflicting values!")
		}
		all[k] = v
		c.params[k] = v.text
	}
	return c.run(all)
}

// run is everything from the permissions on.
func (c *call) run(all map[string]value) (any, error) {
	m := c.method
	if m.Perm.Check != nil && (m.Perm.User != "all") {
		if err := c.access.evaluate(m.Perm.Check, c.who, c.params); err != nil {
			return nil, err
		}
	}
	c.early()
	if err := c.reach(); err != nil {
		return nil, err
	}
	if err := m.verify(all); err != nil {
		return nil, err
	}
	return handlers[m.name](c)
}

// reach finds the node that answers.
func (c *call) reach() error {
	name := c.params["node"]
	entry := c.order[0]
	if c.method.Proxied && name != "localhost" {
		n := c.nodes[name]
		if n == nil {
			if lower := c.nodes[strings.ToLower(name)]; lower != nil { // names resolve in any case, and nothing listens there
				return bare(595, "Connection refused", "")
			}
			return die(fmt.Sprintf("hostname lookup '%s' failed - failed to get address info for: %s: Temporary failure in name resolution", name, name))
		}
		if n.offline != "" {
			status, reason := 595, n.offline
			if reason == timedOut { // the proxy waits for half a minute
				status = 596
				if err := c.pause(c.ctx, 30*time.Second, true); err != nil {
					return err
				}
			}
			return bare(status, reason, "")
		}
		entry = n
	}
	if c.method.Protected && entry.daemon && !strings.HasPrefix(c.method.name, "GET /nodes/{node}/tasks/") {
		return bare(595, "Connection refused", "")
	}
	if name == "localhost" {
		c.params["node"] = c.order[0].Name
	}
	return nil
}

// timedOut is how a node is offline that does not even refuse.
const timedOut = "Connection timed out"
