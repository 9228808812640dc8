package proxmox

import (
	"net/http"
	"path"
	"time"
)

// Effect is what goes wrong.
type Effect string

// The script of what can go wrong.
const (
	// LoseBefore drops the connection; the request has no effect.
	LoseBefore Effect = "lose-before"
	// LoseAfter lets the request have its effect and drops the connection in place of the answer.
	LoseAfter Effect = "lose-after"
	// RefuseBefore answers Status and Reason with an empty body in place of the real answer; the request has no effect.
	RefuseBefore Effect = "refuse-before"
	// RefuseAfter lets the request have its effect, and then answers Status and Reason: a 596 after a clone has begun.
	RefuseAfter Effect = "refuse-after"
	// Delay answers Delay later.
	Delay Effect = "delay"
	// KillWorker kills the worker of the task that the request began half-way: lock: clone is left.
	KillWorker Effect = "kill-worker"
	// FillStorage lets the storage of the task be full half-way.
	FillStorage Effect = "fill-storage"
	// SlowDisk makes the task's disks Factor times slower.
	SlowDisk Effect = "slow-disk"
	// Thief makes a human's machine under the newid or vmid of the request, just before it is looked at.
	Thief Effect = "thief"
	// NodeOffline makes the node in the path stop answering, before the request, for Delay (0: until SetOffline).
	NodeOffline Effect = "node-offline"
	// RevokeToken removes the token that the request was made with, once it had its effect.
	RevokeToken Effect = "revoke-token"
	// CutUpload drops the connection after Bytes of an upload's file. Nothing is left of it.
	CutUpload Effect = "cut-upload"
	// Do runs Hook before the request has its effect.
	Do Effect = "do"
)

// Fault is one thing that goes wrong with requests that match.
type Fault struct {
	Effect Effect
	Method string // "" is any
	Path   string // below /api2/json, * for one segment ("/nodes/*/qemu/*/clone"); "" is any

	Skip        int     // lets the first so many matches pass
	Times       int     // then hits so many; 0 is once, negative for ever
	Probability float64 // hits with this chance (the server's Seed decides); 0 is always

	Status int // of RefuseBefore and RefuseAfter; 0 is 596
	Reason string
	Delay  time.Duration
	Factor float64
	Bytes  int64
	Hook   func(*Console) // of Do; called without the server's lock
}

// Injection is a fault in place.
type Injection struct {
	s     *Server
	fault Fault
	seen  int
	hits  int
}

// Inject puts a fault in place. The first that matches a request and is due hits it.
func (s *Server) Inject(f Fault) *Injection {
	if f.Status == 0 {
		f.Status = 596
	}
	if f.Reason == "" {
		f.Reason = timedOut
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in := &Injection{s: s, fault: f}
	s.faults = append(s.faults, in)
	return in
}

// Hits is how often it has hit.
func (in *Injection) Hits() int {
	in.s.mu.Lock()
	defer in.s.mu.Unlock()
	return in.hits
}

// Remove takes the fault away.
func (in *Injection) Remove() {
	in.s.mu.Lock()
	defer in.s.mu.Unlock()
	for i, f := range in.s.faults {
		if f == in {
			in.s.faults = append(in.s.faults[:i:i], in.s.faults[i+1:]...)
			return
		}
	}
}

// strike finds the fault that hits a request. Called under mu.
func (s *Server) strike(verb, at string) *Injection {
	for _, in := range s.faults {
		f := &in.fault
		if f.Method != "" && f.Method != verb {
			continue
		}
		if ok, err := path.Match(f.Path, at); f.Path != "" && (err != nil || !ok) {
			continue
		}
		if in.seen++; in.seen <= f.Skip {
			continue
		}
		times := f.Times
		if times == 0 {
			times = 1
		}
		if times > 0 && in.hits >= times {
			continue
		}
		if f.Probability > 0 && s.rng.Float64() >= f.Probability {
			continue
		}
		in.hits++
		return in
	}
	return nil
}

// before is what a fault does before a request has its effect. It says whether that was all.
func (c *call) before() (answer, bool) {
	if c.hit == nil {
		return answer{}, false
	}
	f := c.hit.fault
	switch f.Effect { //nolint:exhaustive // the others come later
	case LoseBefore:
		return answer{abrupt: true}, true
	case RefuseBefore:
		return answer{status: f.Status, reason: f.Reason, close: true}, true
	case Delay:
		if c.pause(c.ctx, f.Delay, true) != nil {
			return answer{abrupt: true}, true
		}
	case Do:
		if f.Hook != nil {
			c.mu.Unlock()
			f.Hook(c.Console())
			c.mu.Lock()
		}
	}
	return answer{}, false
}

// early is what a fault does once the request is known, and before it is looked at.
func (c *call) early() {
	if c.hit == nil {
		return
	}
	switch f := c.hit.fault; f.Effect { //nolint:exhaustive // the others have their own moments
	case Thief:
		id := c.get("newid")
		if id == "" {
			id = c.get("vmid")
		}
		n := c.node()
		if n == nil {
			n = c.order[0]
		}
		if _, taken := c.vms[atoi(id)]; !taken && atoi(id) >= 100 {
			c.foreign(n, atoi(id), map[string]string{"name": "thief-" + id})
		}
	case NodeOffline:
		n := c.node()
		if n == nil {
			return
		}
		n.offline = timedOut
		if f.Delay > 0 {
			c.enter()
			c.wg.Go(func() {
				defer c.leave()
				c.mu.Lock()
				defer c.mu.Unlock()
				_ = c.Server.pause(c.Server.ctx, f.Delay, false)
				n.offline = ""
				c.touch()
			})
		}
	}
}

// mark is what a fault does to the task of a request.
func (c *call) mark(t *task) {
	if c.hit == nil {
		return
	}
	switch f := c.hit.fault; f.Effect { //nolint:exhaustive // the others have their own moments
	case KillWorker:
		t.die = true
	case FillStorage:
		t.full = true
	case SlowDisk:
		t.slow = max(f.Factor, 1)
	}
}

// after is what a fault does once a request had its effect.
func (c *call) after(a answer) answer {
	if c.hit == nil {
		return a
	}
	switch f := c.hit.fault; f.Effect { //nolint:exhaustive // the others have their own moments
	case LoseAfter:
		return answer{abrupt: true}
	case RefuseAfter:
		if a.status == http.StatusOK {
			return answer{status: f.Status, reason: f.Reason, close: true}
		}
	case RevokeToken:
		c.revoke(c.who)
	}
	return a
}
