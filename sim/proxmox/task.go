package proxmox

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// task is a worker process, running or ended.
type task struct {
	upid   string
	node   string
	pid    int
	pstart int64
	start  time.Time
	kind   string
	id     string
	who    string
	log    []string
	exit   string // empty while it runs
	end    time.Time

	cancel context.CancelFunc
	ctx    context.Context //nolint:containedctx // a worker lives as long as its task
	stop   error           // why it is to stop: errInterrupted or errKilled
	slow   float64         // a fault makes its disks slower
	full   bool            // a fault fills its storage half-way
	die    bool            // a fault kills it half-way
	locked func()          // lets go of its locks
}

var (
	errInterrupted = errors.New("interrupted by signal")
	errKilled      = errors.New("killed")
)

// unexpected is the exit of a worker that left no word.
const unexpected = "unexpected status"

// UPID is the name of a task in parts.
type UPID struct {
	Node, Kind, ID, User string
	PID, PStart          int64
	Start                time.Time
}

var upidForm = regexp.MustCompile(`^UPID:([a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?):([0-9A-Fa-f]{8}):([0-9A-Fa-f]{8,9}):([0-9A-Fa-f]{8}):([^:\s]+):([^:\s]*):([^:\s]+):$`)

// ParseUPID takes the name of a task apart.
func ParseUPID(text string) (UPID, bool) {
	g := upidForm.FindStringSubmatch(text)
	if g == nil {
		return UPID{}, false
	}
	var n [3]int64
	for i := range n {
		v, err := strconv.ParseInt(g[i+2], 16, 64)
		if err != nil {
			return UPID{}, false
		}
		n[i] = v
	}
	return UPID{Node: g[1], PID: n[0], PStart: n[1], Start: time.Unix(n[2], 0), Kind: g[5], ID: g[6], User: g[7]}, true
}

// String is the name.
func (u UPID) String() string {
	return fmt.Sprintf("UPID:%s:%08X:%08X:%08X:%s:%s:%s:", u.Node, u.PID, u.PStart, u.Start.Unix(), u.Kind, u.ID, u.User)
}

// fork begins a task on a node. Called under mu; the worker runs under mu and lets go of it only while it waits.
func (s *Server) fork(on *node, kind, id, who string, work func(*task) error) *task {
	s.pid += 3 + s.rng.IntN(9)
	now := s.clock.Now()
	t := &task{
		node: on.Name, pid: s.pid, start: now, kind: kind, id: id, who: who, slow: 1,
		pstart: int64(now.Sub(on.joined)/(10*time.Millisecond)) + int64(s.pid),
	}
	t.upid = UPID{Node: t.node, PID: int64(t.pid), PStart: t.pstart & 0xffffffff, Start: now, Kind: kind, ID: id, User: who}.String()
	t.ctx, t.cancel = context.WithCancel(s.ctx)
	s.tasks[t.upid] = t
	on.active = append(on.active, t)
	s.touch()
	s.enter()
	s.wg.Go(func() {
		defer s.leave()
		s.mu.Lock()
		defer s.mu.Unlock()
		err := s.wait(t, s.lat.Fork)
		if err == nil {
			err = work(t)
		}
		s.ended(t, err)
	})
	return t
}

// begin is fork for a call: the answer is the task's name.
func (c *call) begin(kind, id string, work func(*task) error) (any, error) {
	t := c.fork(c.node(), kind, id, c.who, work)
	c.upid = t.upid
	c.mark(t)
	return t.upid, nil
}

func (s *Server) ended(t *task, err error) {
	if t.locked != nil {
		t.locked()
	}
	t.end = s.clock.Now()
	var f *fail
	switch {
	case errors.Is(t.stop, errKilled), s.ctx.Err() != nil:
		t.exit = unexpected
	case err == nil && t.warnings() > 0:
		t.exit = fmt.Sprintf("WARNINGS: %d", t.warnings())
		t.say("TASK " + t.exit)
	case err == nil:
		t.exit = "OK"
		t.say("TASK OK")
	case errors.As(err, &f):
		t.exit = strings.SplitN(f.text, "\n", 2)[0]
		t.say("TASK ERROR: " + t.exit)
	default:
		t.exit = err.Error()
		t.say("TASK ERROR: " + t.exit)
	}
	t.cancel()
	n := s.nodes[t.node]
	n.active = slices.DeleteFunc(n.active, func(o *task) bool { return o == t })
	n.archive = append(n.archive, t)
	s.log.Debug("task ended", "upid", t.upid, "exit", t.exit)
	s.touch()
}

func (t *task) say(line string) { t.log = append(t.log, line) }

func (t *task) warn(line string) { t.say("WARN: " + line) }

func (t *task) warnings() int {
	n := 0
	for _, l := range t.log {
		if strings.HasPrefix(l, "WARN: ") {
			n++
		}
	}
	return n
}

// wait is a worker's time. It ends early when the worker is stopped.
func (s *Server) wait(t *task, d time.Duration) error {
	if err := s.pause(t.ctx, d, false); err != nil {
		if t.stop != nil {
			return t.stop
		}
		return errKilled
	}
	return nil
}

// disk is a worker's time with a disk.
func (s *Server) disk(t *task, d time.Duration) error {
	slow := t.slow
	if n := s.nodes[t.node]; n != nil && n.slow > 1 {
		slow *= n.slow
	}
	d = time.Duration(float64(d) * slow)
	if err := s.wait(t, d/2); err != nil {
		return err
	}
	if t.die {
		t.stop = errKilled
		return errKilled
	}
	if t.full {
		return die("No space left on device")
	}
	return s.wait(t, d-d/2)
}

// vmLock is the lock file of a machine.
type vmLock struct {
	exclusive *task // nil with held: a synchronous call
	held      bool
	shared    int
}

// poll is how often a lock that is taken is looked at again.
const poll = 50 * time.Millisecond

// lock takes the lock file of a machine, waiting for it. t is nil in a synchronous call.
func (s *Server) lock(ctx context.Context, t *task, vmid int, shared bool, limit time.Duration) (func(), error) {
	until := s.clock.Now().Add(time.Duration(float64(limit) * s.opts.Scale))
	for {
		l := s.locks[vmid]
		if l == nil {
			l = &vmLock{}
			s.locks[vmid] = l
		}
		if !l.held && (shared || l.shared == 0) {
			return s.take(t, l, shared), nil
		}
		if !s.clock.Now().Before(until) {
			return nil, die(fmt.Sprintf("can't lock file '/var/lock/qemu-server/lock-%d.conf' - got timeout", vmid))
		}
		var err error
		if t != nil {
			err = s.wait(t, poll)
		} else {
			err = s.pause(ctx, poll, true)
		}
		if err != nil {
			return nil, err
		}
	}
}

// take holds a lock until what it returns is called, or the worker has ended.
func (s *Server) take(t *task, l *vmLock, shared bool) func() {
	if shared {
		l.shared++
	} else {
		l.held, l.exclusive = true, t
	}
	open := true
	release := func() {
		if !open {
			return
		}
		open = false
		if shared {
			l.shared--
		} else {
			l.held, l.exclusive = false, nil
		}
	}
	if t != nil { // the kernel lets go of what a dead process held
		before := t.locked
		t.locked = func() {
			release()
			if before != nil {
				before()
			}
		}
	}
	return release
}

// The waits of the real one.
const (
	lockClone = time.Second
	lockOther = 10 * time.Second
)

// locked runs work with a machine's lock.
func (s *Server) locked(ctx context.Context, t *task, vmid int, shared bool, limit time.Duration, work func() error) error {
	release, err := s.lock(ctx, t, vmid, shared, limit)
	if err != nil {
		return err
	}
	defer release()
	return work()
}
