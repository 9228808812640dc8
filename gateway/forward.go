package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"
)

// Bounds of a forwarder. A controller keeps a handful of connections and makes requests of minutes at most.
const (
	MaxConns    = 64
	IdleTimeout = 10 * time.Minute
	DialTimeout = 10 * time.Second
	StopGrace   = 10 * time.Second
)

// Forwarder passes connections on to one target. Zero fields are the bounds above.
type Forwarder struct {
	Target string // host:port
	// MaxConns are open at once; one more is closed as soon as it is accepted.
	MaxConns int
	// IdleTimeout is how long a connection may carry nothing in either direction.
	IdleTimeout time.Duration
	// StopGrace is what open connections get to end in when the gateway stops.
	StopGrace time.Duration
	// Dial reaches the target; nil is TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Log  *slog.Logger
	// Changed is called, not at the same time twice, when Counts says something new besides bytes.
	Changed func(Counts)

	mu       sync.Mutex
	counts   Counts
	changing sync.Mutex
}

// CheckTarget refuses what is not one host and one port.
func CheckTarget(target string) error {
	host, port, err := net.SplitHostPort(target)
	if err == nil {
		var n int
		if n, err = net.DefaultResolver.LookupPort(context.Background(), "tcp", port); err == nil && (host == "" || n == 0) {
			err = errors.New("it needs a host and a port")
		}
	}
	if err != nil {
		return fmt.Errorf("cannot forward to %q: give one host and port, such as 127.0.0.1:8006: %w", target, err)
	}
	return nil
}

func (f *Forwarder) defaults() {
	if f.MaxConns <= 0 {
		f.MaxConns = MaxConns
	}
	if f.IdleTimeout <= 0 {
		f.IdleTimeout = IdleTimeout
	}
	if f.StopGrace <= 0 {
		f.StopGrace = StopGrace
	}
	if f.Dial == nil {
		f.Dial = (&net.Dialer{Timeout: DialTimeout, KeepAlive: 15 * time.Second}).DialContext
	}
	if f.Log == nil {
		f.Log = slog.New(slog.DiscardHandler)
	}
}

// Serve forwards what ln accepts until ctx ends, then closes ln and lets open connections end for StopGrace. It returns nil then, and
// an error when ln fails by itself.
func (f *Forwarder) Serve(ctx context.Context, ln net.Listener) error {
	f.defaults()
	if err := CheckTarget(f.Target); err != nil {
		return err
	}
	// Connections outlive ctx by the grace.
	work, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() }) // Accept says what came of it
	defer stop()
	var open sync.WaitGroup
	err := f.accept(ctx, work, ln, &open)
	_ = ln.Close() // it may be closed already
	ended := make(chan struct{})
	go func() { open.Wait(); close(ended) }()
	grace := time.NewTimer(f.StopGrace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
		kill()
		<-ended
	}
	return err
}

// accept takes connections until the listener ends.
func (f *Forwarder) accept(ctx, work context.Context, ln net.Listener, open *sync.WaitGroup) error {
	slots := make(chan struct{}, f.MaxConns)
	wait := time.Duration(0)
	for {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			wait = 0
		case ctx.Err() != nil:
			return nil //nolint:nilerr // told to stop
		case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.ECONNABORTED), errors.Is(err, syscall.ENOBUFS):
			wait = min(max(2*wait, 10*time.Millisecond), time.Second)
			f.Log.Warn("cannot accept a connection; trying again", "err", err)
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return nil
			}
			continue
		default:
			return fmt.Errorf("cannot accept connections of the tunnel: %w", err)
		}
		select {
		case slots <- struct{}{}:
		default:
			f.count(func(c *Counts) { c.Refused++ })
			f.Log.Warn("a connection was refused: too many are open", "open", f.MaxConns)
			_ = conn.Close() // it carried nothing
			continue
		}
		open.Go(func() {
			defer func() { <-slots }()
			f.serve(work, conn)
		})
	}
}

// serve connects one connection to the target and waits until both directions have ended.
func (f *Forwarder) serve(ctx context.Context, in net.Conn) {
	defer func() { _ = in.Close() }() // whatever there was to say of it was said
	dial, cancel := context.WithTimeout(ctx, DialTimeout)
	out, err := f.Dial(dial, "tcp", f.Target)
	cancel()
	if err != nil {
		f.count(func(c *Counts) { c.Failed++; c.TargetError = err.Error() })
		f.Log.Warn("the target does not answer", "target", f.Target, "err", err)
		return
	}
	defer func() { _ = out.Close() }()
	f.count(func(c *Counts) { c.Accepted++; c.Open++; c.TargetError = "" })
	p := &pipe{a: in, b: out, idle: f.IdleTimeout}
	err = p.run(ctx)
	f.count(func(c *Counts) {
		c.Open--
		c.BytesIn += p.in.Load()
		c.BytesOut += p.out.Load()
	})
	if err != nil {
		f.Log.Info("a connection was cut", "err", err)
	}
}

// Counts is what a forwarder has done.
type Counts struct {
	Open     int   `json:"open"`
	Accepted int64 `json:"accepted"`
	Refused  int64 `json:"refused"` // since too many were open
	Failed   int64 `json:"failed"`  // since the target did not answer
	BytesIn  int64 `json:"bytes_in"`
	BytesOut int64 `json:"bytes_out"`
	// TargetError is why the target did not answer the last time; empty when it did.
	TargetError string `json:"target_error,omitempty"`
}

// Counts says what was done so far. The bytes are those of connections that have ended.
func (f *Forwarder) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

func (f *Forwarder) count(change func(*Counts)) {
	f.mu.Lock()
	change(&f.counts)
	f.mu.Unlock()
	if f.Changed != nil {
		f.changing.Lock()
		defer f.changing.Unlock()
		f.Changed(f.Counts())
	}
}
