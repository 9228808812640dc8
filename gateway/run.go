package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// Tunnel is the side of a tunnel that listens: its only client is the controller.
type Tunnel interface {
	// NewIdentity makes what the gateway will be known by from now on.
	NewIdentity() ([]byte, error)
	// Address is how the controller reaches an identity. It needs no network: the controller lets the gateway use its relay only once
	// it knows the address.
	Address(identity []byte) (string, error)
	// Listen begins to listen under an identity and returns once the controller can reach it.
	Listen(ctx context.Context, identity []byte) (net.Listener, error)
	// Close leaves the tunnel, with every connection. Listen enters it again.
	Close() error
}

// Options run a gateway.
type Options struct {
	StateDir string
	Target   string // host:port
	Tunnel   Tunnel
	Log      *slog.Logger
	Now      func() time.Time
	// Ready is called once the controller can reach the gateway.
	Ready func()
}

// Waits between attempts to reach the tunnel's relay.
const (
	firstRetry = time.Second
	maxRetry   = 15 * time.Second
)

// Run forwards until ctx ends. It keeps trying while the tunnel cannot be reached, also after it broke: nobody is at hand to start it
// again.
func Run(ctx context.Context, o Options) (err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := CheckTarget(o.Target); err != nil {
		return err
	}
	state, err := OpenState(o.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	identity, err := state.Identity(o.Tunnel.NewIdentity)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Tunnel.Close()) }()
	address, err := o.Tunnel.Address(identity)
	if err != nil {
		return fmt.Errorf("cannot tell the gateway's address: %w", err)
	}
	r := &reporter{state: state, log: o.Log, now: o.Now, is: Status{Address: address, Target: o.Target, PID: os.Getpid()}}
	r.say(Starting, "")
	defer r.say(Stopped, "")
	f := &Forwarder{Target: o.Target, Log: o.Log, Changed: r.counted}
	for wait := firstRetry; ctx.Err() == nil; wait = min(2*wait, maxRetry) {
		ln, err := o.Tunnel.Listen(ctx, identity)
		if err == nil {
			r.reached()
			o.Log.Info("the controller can reach the gateway", "target", o.Target)
			if o.Ready != nil {
				o.Ready()
			}
			wait = firstRetry
			err = f.Serve(ctx, ln)
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := o.Tunnel.Close(); err != nil {
			o.Log.Warn("cannot leave the tunnel in order", "err", err)
		}
		r.say(Starting, fmt.Sprintf("the tunnel cannot be reached (%v): can this machine reach the controller?", err))
		o.Log.Warn("the tunnel cannot be reached; trying again", "err", err, "in", wait)
		again := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-again.C:
		}
		again.Stop()
	}
	return nil
}

// reporter keeps the status file.
type reporter struct {
	state *State
	log   *slog.Logger
	now   func() time.Time
	mu    sync.Mutex
	is    Status
	wrote time.Time
}

// countsEvery is how old the counts of the status file become while nothing else changes.
const countsEvery = 10 * time.Second

func (r *reporter) say(w Word, detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(w, detail)
}

func (r *reporter) reached() {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, detail := of(r.is.Counts, r.is.Target)
	r.set(w, detail)
}

func (r *reporter) counted(c Counts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.is.Counts = c
	w, detail := of(c, r.is.Target)
	r.set(w, detail)
}

func (r *reporter) set(w Word, detail string) {
	now := r.now()
	if r.is.Status == w && r.is.Detail == detail && now.Sub(r.wrote) < countsEvery {
		return
	}
	if r.is.Status != w {
		r.is.Since = now
	}
	r.is.Status, r.is.Detail, r.wrote = w, detail, now
	raw, err := json.MarshalIndent(r.is, "", "  ")
	if err == nil {
		err = r.state.Write(StatusFile, append(raw, '\n'))
	}
	if err != nil {
		r.log.Warn("cannot write how the gateway is", "err", err)
	}
}
