package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

var errDown = errors.New("connection refused")

// scripted is a controller in memory that a test drives: it queues tasks, keeps what it was
// told, and can be down, forget a host, or lose its answers.
type scripted struct {
	mu        sync.Mutex
	wake      chan struct{}
	tokens    map[string]bool // join tokens that are good for one join
	hostID    string
	token     string // the agent token; "" knows nobody
	issued    int
	offered   []string // join tokens that were offered
	queue     []protocol.Task
	leased    map[string]protocol.Task
	results   []protocol.TaskResult
	reports   []protocol.RunnerReport
	ended     map[string]string // runner: end state as recorded
	cleaned   map[string]bool   // runner: reported missing after its end
	unknown   map[string]bool   // runners that have no row
	deaf      bool              // records no end
	down      bool
	loseNext  int        // results taken whose answer is lost
	loseJoins int        // joins whose answer is lost
	losePolls int        // tasks leased whose delivery is lost
	held      [][]string // what each poll said is held
	// Agents choose their tokens, as they do with a controller of today; otherwise it is one that
	// chooses them itself.
	choosy    bool
	spentBy   map[string]string // join token: the hash of the agent token that it was spent with
	retention time.Duration
	cordoned  bool
	beats     []protocol.Heartbeat
	polls     int
	refusals  int
	logs      map[string]string
	watching  map[string]chan struct{} // closed when nobody watches a stream any more
}

func newScripted() *scripted {
	return &scripted{
		wake: make(chan struct{}), tokens: map[string]bool{"zoojoin_one": true}, hostID: "hst_1",
		leased: map[string]protocol.Task{}, ended: map[string]string{}, cleaned: map[string]bool{},
		unknown: map[string]bool{}, spentBy: map[string]string{}, logs: map[string]string{}, watching: map[string]chan struct{}{},
	}
}

func (s *scripted) set(fn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fn()
	close(s.wake)
	s.wake = make(chan struct{})
}

// offer queues a task; one of an ID that was offered before is its next delivery.
func (s *scripted) offer(t protocol.Task) {
	s.set(func() {
		if t.Attempt == 0 {
			t.Attempt = s.leased[t.ID].Attempt + 1
		}
		s.queue = append(s.queue, t)
	})
}

// redeliver is what the end of a lease does.
func (s *scripted) redeliver(id string) {
	s.set(func() {
		t := s.leased[id]
		t.Attempt++
		s.queue = append(s.queue, t)
	})
}

func (s *scripted) setDown(down bool) { s.set(func() { s.down = down }) }

func (s *scripted) check(cred protocol.Credential) error {
	switch {
	case s.down:
		return errDown
	case s.token == "" || cred.HostID != s.hostID || cred.Token != s.token && protocol.HashAgentToken(cred.Token) != s.token:
		s.refusals++
		return protocol.ErrUnauthorized
	}
	return nil
}

func (s *scripted) Join(_ context.Context, req protocol.JoinRequest) (protocol.JoinResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return protocol.JoinResponse{}, errDown
	}
	s.offered = append(s.offered, req.Token)
	answer := protocol.JoinResponse{HostID: s.hostID, HeartbeatInterval: 30}
	if hash := s.spentBy[req.Token]; s.choosy && hash != "" && hash == req.AgentTokenHash {
		return answer, s.lostJoin()
	}
	if !s.tokens[req.Token] {
		return protocol.JoinResponse{}, fmt.Errorf("join token is spent: %w", protocol.ErrUnauthorized)
	}
	delete(s.tokens, req.Token)
	s.issued++
	if s.choosy {
		s.token, s.spentBy[req.Token] = req.AgentTokenHash, req.AgentTokenHash
		return answer, s.lostJoin()
	}
	s.token = fmt.Sprintf("agent-token-%d", s.issued)
	answer.AgentToken = s.token
	return answer, nil
}

// lostJoin is what the agent sees of a join that was done. The caller holds mu.
func (s *scripted) lostJoin() error {
	if s.loseJoins > 0 {
		s.loseJoins--
		return errDown
	}
	return nil
}

func (s *scripted) Heartbeat(_ context.Context, cred protocol.Credential, hb protocol.Heartbeat) (protocol.HeartbeatResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(cred); err != nil {
		return protocol.HeartbeatResponse{}, err
	}
	s.beats = append(s.beats, hb)
	return protocol.HeartbeatResponse{HeartbeatInterval: 30, Cordoned: s.cordoned}, nil
}

func (s *scripted) Poll(ctx context.Context, cred protocol.Credential, wait time.Duration) (*protocol.Task, error) {
	t := time.NewTimer(wait)
	defer t.Stop()
	if held, said := protocol.HeldOf(ctx); said {
		s.mu.Lock()
		s.held = append(s.held, append([]string{}, held...))
		s.mu.Unlock()
	}
	for {
		s.mu.Lock()
		if err := s.check(cred); err != nil {
			s.mu.Unlock()
			return nil, err
		}
		if len(s.queue) > 0 {
			task := s.queue[0]
			s.queue = s.queue[1:]
			s.leased[task.ID] = task
			s.polls++
			lost := s.losePolls > 0
			if lost {
				s.losePolls--
			}
			s.mu.Unlock()
			if lost {
				return nil, errDown
			}
			return &task, nil
		}
		wake := s.wake
		s.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-t.C:
			s.mu.Lock()
			s.polls++
			s.mu.Unlock()
			return nil, nil
		}
	}
}

func (s *scripted) Result(_ context.Context, cred protocol.Credential, res protocol.TaskResult) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(cred); err != nil {
		return err
	}
	if s.leased[res.TaskID].Attempt != res.Attempt {
		return protocol.ErrConflict
	}
	s.results = append(s.results, res)
	if s.loseNext > 0 {
		s.loseNext--
		return errDown
	}
	return nil
}

func (s *scripted) Report(_ context.Context, cred protocol.Credential, reports []protocol.RunnerReport) (protocol.ReportResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.check(cred); err != nil {
		return protocol.ReportResponse{}, err
	}
	s.reports = append(s.reports, reports...)
	resp := protocol.ReportResponse{FinishedRetention: protocol.SecondsOf(s.retention)}
	for _, r := range reports {
		if (r.State == stateRemoved || r.State == stateFailed) && !s.deaf && s.ended[r.RunnerID] == "" {
			s.ended[r.RunnerID] = r.State
		}
		if r.Phase == protocol.PhaseMissing && !s.deaf {
			s.cleaned[r.RunnerID] = true
		}
		if s.ended[r.RunnerID] != "" || s.unknown[r.RunnerID] {
			resp.Finished = append(resp.Finished, r.RunnerID)
		}
	}
	return resp, nil
}

func (s *scripted) SendLogs(ctx context.Context, cred protocol.Credential, stream string, r io.Reader) error {
	s.mu.Lock()
	err := s.check(cred)
	gone := s.watching[stream]
	s.mu.Unlock()
	if err != nil {
		return err
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 512)
		for {
			n, err := r.Read(buf)
			s.mu.Lock()
			s.logs[stream] += string(buf[:n])
			s.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	select {
	case <-read:
		return nil
	case <-gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// lastBeat is the last heartbeat.
func (s *scripted) lastBeat() protocol.Heartbeat {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beats[len(s.beats)-1]
}

// result is the last answer to a task, and how many there were.
func (s *scripted) result(taskID string) (last protocol.TaskResult, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.results {
		if r.TaskID == taskID {
			last = r
			n++
		}
	}
	return last, n
}

// said is every different thing that was reported of a runner, in order, as "state/phase".
func (s *scripted) said(runnerID string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, r := range s.reports {
		if r.RunnerID == runnerID {
			out = append(out, r.State+"/"+string(r.Phase))
		}
	}
	return slices.Compact(out)
}

// last is the last report of a runner.
func (s *scripted) last(runnerID string) (last protocol.RunnerReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.reports {
		if r.RunnerID == runnerID {
			last = r
		}
	}
	return last
}
