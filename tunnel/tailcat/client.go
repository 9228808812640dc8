package tailcat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/zoomies-fleet/zoomies/tunnel"
)

// How a client finds out that its connection is dead, and how soon it tries again.
const (
	// HeartEvery is the time between two questions whether the server is still there.
	HeartEvery = 5 * time.Second
	// HeartTimeout is how long an answer may take before the connection counts as dead.
	HeartTimeout = 15 * time.Second
	// RetryMax is the longest wait between two attempts to connect.
	RetryMax = 10 * time.Second
	// attemptTimeout bounds one attempt, in which the server is greeted every greetTimeout.
	attemptTimeout = 12 * time.Second
	greetTimeout   = 3 * time.Second
)

// ClientOptions make a client.
type ClientOptions struct {
	Address  string // the server's
	Identity Identity
	Log      *slog.Logger

	// wait is the pause between attempts; tests have their own time.
	wait func(ctx context.Context, d time.Duration) error
	// attempt bounds one attempt; zero is attemptTimeout.
	attempt time.Duration
}

// Client is a host's end of the tunnel. It connects at once, and again whenever the connection
// is lost, with a new network stack each time: an old one may hold on to what is no longer
// true. It is safe for concurrent use.
type Client struct {
	o      ClientOptions
	cancel context.CancelFunc
	done   chan struct{}
	poke   chan struct{} // asks for a heartbeat now

	draining sync.WaitGroup // sessions that another has replaced

	mu        sync.Mutex
	addresses []string // the wanted one first, then the one it replaces
	changed   chan struct{}
	live      *session
	lastErr   error
	lostAt    chan struct{} // closed and replaced when live changes
	closed    bool
}

var _ tunnel.Tunnel = (*Client)(nil)

// Connect makes a client. A wrong address is an error at once; a server that does not answer
// is not.
func Connect(o ClientOptions) (*Client, error) {
	if err := CheckAddress(o.Address); err != nil {
		return nil, err
	}
	if o.Identity.private.IsZero() {
		return nil, fmt.Errorf("cannot open the tunnel without this host's key: %w", tunnel.ErrAddress)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.wait == nil {
		o.wait = sleep
	}
	if o.attempt == 0 {
		o.attempt = attemptTimeout
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{
		o: o, cancel: cancel, done: make(chan struct{}), poke: make(chan struct{}, 1),
		addresses: []string{o.Address}, changed: make(chan struct{}), lostAt: make(chan struct{}),
	}
	go c.run(ctx)
	return c, nil
}

// Update makes the client use another address from now on. The old one is kept to fall back on
// until the new one has answered. The client reconnects only once the new one answers.
func (c *Client) Update(address string) error {
	if err := CheckAddress(address); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.addresses[0] == address {
		return nil
	}
	c.addresses = slices.Compact([]string{address, c.addresses[0]})
	close(c.changed)
	c.changed = make(chan struct{})
	return nil
}

// Address is the address that is in use, or asked for while there is none.
func (c *Client) Address() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		return c.live.address
	}
	return c.addresses[0]
}

// Listen implements tunnel.Tunnel: a client accepts nothing.
func (c *Client) Listen(uint16) (net.Listener, error) {
	return nil, fmt.Errorf("cannot listen: %w", tunnel.ErrOneWay)
}

// WhoIs implements tunnel.Tunnel: the only other end is the server.
func (c *Client) WhoIs(_ context.Context, remote net.Addr) (tunnel.Peer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil || ipOf(remote) != addrOf(c.live.server) {
		return tunnel.Peer{}, tunnel.ErrStranger
	}
	return tunnel.Peer{Name: tunnel.Name, Key: c.live.server.String()}, nil
}

// Dial implements tunnel.Tunnel. There is one server, so only the address's port counts.
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, fmt.Errorf("cannot dial %s through the tunnel: it carries TCP only", network)
	}
	_, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("cannot dial %q through the tunnel: it must be host:port", address)
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("cannot dial %q through the tunnel: the port must be 1 to 65535", address)
	}
	for {
		s, lost, err := c.session(ctx)
		if err != nil {
			return nil, err
		}
		conn, err := c.dialIn(ctx, s, lost, uint16(port))
		if err == nil {
			return conn, nil
		}
		select {
		case <-lost: // what failed is gone: try the next one
			continue
		default:
		}
		return nil, fmt.Errorf("cannot dial the server through the tunnel: %w", err)
	}
}

// dialIn gives up on a session that is lost meanwhile, and asks for a heartbeat when it takes
// long: the server may be gone, and nobody has noticed.
func (c *Client) dialIn(ctx context.Context, s *session, lost <-chan struct{}, port uint16) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slow := time.AfterFunc(greetTimeout, c.askNow)
	defer slow.Stop()
	go func() {
		select {
		case <-lost:
			cancel()
		case <-ctx.Done():
		}
	}()
	return s.dial(ctx, port)
}

// session waits for a live session.
func (c *Client) session(ctx context.Context) (*session, <-chan struct{}, error) {
	for {
		c.mu.Lock()
		live, lost, last, closed := c.live, c.lostAt, c.lastErr, c.closed
		c.mu.Unlock()
		switch {
		case closed:
			return nil, nil, net.ErrClosed
		case live != nil:
			return live, lost, nil
		}
		select {
		case <-lost:
		case <-c.done:
			return nil, nil, net.ErrClosed
		case <-ctx.Done():
			if last == nil {
				last = ctx.Err()
			}
			return nil, nil, fmt.Errorf("%w: %w", tunnel.ErrDown, last)
		}
	}
}

// Status implements tunnel.Tunnel.
func (c *Client) Status(context.Context) (tunnel.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	st := tunnel.Status{Transport: "tailcat", Ready: c.live != nil}
	if c.live != nil {
		st.Peers = []tunnel.PeerStatus{{Peer: tunnel.Peer{Name: tunnel.Name, Key: c.live.server.String()}, Connected: true, LastSeen: c.live.lastSeen()}}
	} else {
		st.Problem = c.lastErr
	}
	return st, nil
}

// Close implements tunnel.Tunnel.
func (c *Client) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	<-c.done
	return nil
}

// options may be changed by tests while the client runs.
func (c *Client) options() ClientOptions {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.o
}

func (c *Client) askNow() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

// run keeps a session alive until ctx ends.
func (c *Client) run(ctx context.Context) {
	defer close(c.done)
	defer c.draining.Wait()
	pace := backoff.NewExponentialBackOff()
	pace.InitialInterval, pace.MaxInterval = 200*time.Millisecond, RetryMax
	for ctx.Err() == nil {
		s, err := c.connectAny(ctx)
		if err != nil {
			c.set(nil, err)
			c.o.Log.Debug("the tunnel is down", "err", err)
			_ = c.o.wait(ctx, pace.NextBackOff()) // ctx is looked at above
			continue
		}
		pace.Reset()
		for s != nil {
			c.set(s, nil)
			c.o.Log.Info("the tunnel is up", "server", s.server)
			s, err = c.keep(ctx, s)
		}
		c.set(nil, err)
		if ctx.Err() == nil {
			c.o.Log.Warn("the tunnel was lost; connecting again", "err", err)
		}
	}
	c.set(nil, net.ErrClosed)
}

// keep returns when the session is dead, or with the one that takes its place after Update.
func (c *Client) keep(ctx context.Context, s *session) (*session, error) {
	dead := make(chan error, 1)
	beating, stop := context.WithCancel(ctx)
	defer stop()
	go func() { dead <- s.beat(beating, c.poke) }()
	for {
		c.mu.Lock()
		changed, wanted := c.changed, c.addresses[0]
		c.mu.Unlock()
		if wanted == s.address {
			select {
			case err := <-dead:
				s.Close()
				return nil, err
			case <-changed:
				continue
			}
		}
		// A new address is wanted. The old session carries on until the new one answers.
		next, err := open(ctx, wanted, c.options())
		if err == nil {
			stop()
			<-dead //nolint:errcheck // how it ended is of no use now
			c.draining.Go(func() {
				_ = sleep(ctx, drainTime) // or until the client is closed
				s.Close()
			})
			return next, nil
		}
		select {
		case err := <-dead:
			s.Close()
			return nil, err
		case <-changed:
		case <-waited(ctx, c.o.wait, RetryMax/2):
		}
	}
}

// connectAny tries each known address once.
func (c *Client) connectAny(ctx context.Context) (*session, error) {
	c.mu.Lock()
	addresses := slices.Clone(c.addresses)
	c.mu.Unlock()
	var errs []error
	for _, a := range addresses {
		s, err := open(ctx, a, c.options())
		if err == nil {
			return s, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (c *Client) set(s *session, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.live, c.lastErr = s, err
	if s != nil && s.address == c.addresses[0] {
		c.addresses = c.addresses[:1] // the new address works: the old one is forgotten
	}
	close(c.lostAt)
	c.lostAt = make(chan struct{})
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func waited(ctx context.Context, wait func(context.Context, time.Duration) error, d time.Duration) <-chan struct{} {
	ch := make(chan struct{})
	go func() {
		defer close(ch)
		_ = wait(ctx, d) // either way it is over
	}()
	return ch
}
