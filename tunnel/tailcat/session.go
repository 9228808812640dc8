package tailcat

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	upstream "github.com/tailscale/tailcat"
	"tailscale.com/types/key"

	"github.com/zoomies-fleet/zoomies/tunnel/quiet"
)

// drainTime is how long connections of a session may go on that a new address has replaced.
const drainTime = 2 * time.Minute

// session is one network stack that has reached the server once.
type session struct {
	address string
	server  key.NodePublic
	node    *upstream.Client
	heart   net.Conn
	seen    atomic.Int64

	mu     sync.Mutex
	conns  map[*conn]struct{}
	closed bool
}

// open makes one attempt to connect.
func open(ctx context.Context, address string, o ClientOptions) (_ *session, err error) {
	info, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.attempt)
	defer cancel()
	s := &session{address: address, server: info.ServerPublic.NodePublic, conns: make(map[*conn]struct{})}
	s.node = &upstream.Client{Server: upstream.ConnBlob(address), Key: o.Identity.private, Logf: quiet.Logf(o.Log)}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	// A greeting is lost when the server has not settled on its relay yet, or does not admit
	// this key: there is no telling which.
	for {
		greeting, stop := context.WithTimeout(ctx, greetTimeout)
		_, err = s.node.Ping(greeting)
		stop()
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("no answer through the relay: the controller is not running, its relay cannot be reached, or it does not admit this host's key: %w", err)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			if err := sleep(ctx, greetTimeout/6); err != nil {
				return nil, fmt.Errorf("cannot greet the server: %w", err)
			}
		}
	}
	heart, err := s.node.DialTCPPort(ctx, heartPort)
	if err != nil {
		return nil, fmt.Errorf("the server greets but does not answer: %w", err)
	}
	s.heart = heart
	if err := s.ask(time.Now().Add(greetTimeout)); err != nil {
		return nil, fmt.Errorf("the server does not answer, or no longer admits this host's key: %w", err)
	}
	return s, nil
}

// ask sends a heartbeat and waits for its answer.
func (s *session) ask(deadline time.Time) error {
	_ = s.heart.SetDeadline(deadline) // a closed connection says so below
	if _, err := s.heart.Write([]byte{'?'}); err != nil {
		return err
	}
	if _, err := s.heart.Read(make([]byte, 1)); err != nil {
		return err
	}
	s.seen.Store(time.Now().UnixNano())
	return nil
}

// beat returns when the server no longer answers, or ctx ends. A poke asks sooner.
func (s *session) beat(ctx context.Context, poke <-chan struct{}) error {
	stop := context.AfterFunc(ctx, func() { _ = s.heart.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	next := time.NewTicker(HeartEvery)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next.C:
		case <-poke:
		}
		if err := s.ask(time.Now().Add(HeartTimeout)); err != nil {
			return fmt.Errorf("the server has stopped answering: %w", err)
		}
	}
}

func (s *session) lastSeen() time.Time { return time.Unix(0, s.seen.Load()) }

func (s *session) dial(ctx context.Context, port uint16) (net.Conn, error) {
	raw, err := s.node.DialTCPPort(ctx, port)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: raw}
	c.onClose = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
	}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.conns[c] = struct{}{}
	}
	s.mu.Unlock()
	if closed {
		_ = raw.Close()
		return nil, net.ErrClosed
	}
	return c, nil
}

// Close ends its connections, so that who reads from one hears of it at once.
func (s *session) Close() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	open := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		open = append(open, c)
	}
	s.mu.Unlock()
	for _, c := range open {
		_ = c.Close()
	}
	if s.heart != nil {
		_ = s.heart.Close()
	}
	_ = s.node.Close()
}
