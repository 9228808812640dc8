package agent

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// session holds the credential and whether the controller refused it. While it is refused
// every loop waits, so that a deleted host does not hammer its controller.
type session struct {
	instance string // of this run of the agent

	mu      sync.Mutex
	cred    protocol.Credential
	refused bool
	changed chan struct{} // closed and replaced at every change
}

func newSession() *session {
	return &session{instance: rand.Text(), changed: make(chan struct{})}
}

func (s *session) credential() protocol.Credential {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cred
}

func (s *session) isRefused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// set takes a credential that the controller accepts.
func (s *session) set(cred protocol.Credential) {
	s.mu.Lock()
	defer s.mu.Unlock()
	cred.Instance = s.instance
	s.cred, s.refused = cred, false
	s.signal()
}

// refuse notes that the controller does not accept cred; one that was replaced meanwhile
// changes nothing.
func (s *session) refuse(cred protocol.Credential) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cred == cred && !s.refused {
		s.refused = true
		s.signal()
	}
}

func (s *session) signal() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await returns the credential once it is not refused, or false when ctx ends first.
func (s *session) await(ctx context.Context) (protocol.Credential, bool) {
	if !s.awaitState(ctx, false) {
		return protocol.Credential{}, false
	}
	return s.credential(), true
}

// awaitRefusal waits until the credential is refused; it is false when ctx ends first.
func (s *session) awaitRefusal(ctx context.Context) bool { return s.awaitState(ctx, true) }

func (s *session) awaitState(ctx context.Context, refused bool) bool {
	for {
		s.mu.Lock()
		is, changed := s.refused, s.changed
		s.mu.Unlock()
		if ctx.Err() != nil {
			return false
		}
		if is == refused {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// call runs one call with the credential, within CallTimeout, and notes a refusal.
func (a *Agent) call(ctx context.Context, fn func(context.Context, protocol.Credential) error) error {
	cred, ok := a.session.await(ctx)
	if !ok {
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	err := fn(ctx, cred)
	if errors.Is(err, protocol.ErrUnauthorized) {
		a.session.refuse(cred)
	}
	return err
}
