package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// chunk is how much is passed on at once.
const chunk = 32 << 10

// pipe carries bytes between two connections until both directions have ended. The end of one direction is passed on as the end of
// that direction alone: the other may have much to say yet.
type pipe struct {
	a, b    net.Conn
	idle    time.Duration
	in, out atomic.Int64 // bytes from a to b, and from b to a

	once  sync.Once
	cause error
}

var errIdle = errors.New("it carried nothing for too long")

// run returns nil when both directions have ended in order, and otherwise why the connections were cut.
func (p *pipe) run(ctx context.Context) error {
	watch := time.AfterFunc(p.idle, func() { p.cut(errIdle) })
	defer watch.Stop()
	defer context.AfterFunc(ctx, func() { p.cut(errors.New("the gateway stops")) })()
	alive := func() { watch.Reset(p.idle) }
	var both sync.WaitGroup
	both.Go(func() { p.copy(p.b, p.a, &p.in, alive) })
	both.Go(func() { p.copy(p.a, p.b, &p.out, alive) })
	both.Wait()
	p.once.Do(func() {}) // nothing is cut any more
	return p.cause
}

// copy passes one direction on until it ends.
func (p *pipe) copy(to, from net.Conn, n *atomic.Int64, alive func()) {
	buf := make([]byte, chunk)
	for {
		got, err := from.Read(buf)
		if got > 0 {
			alive()
			sent, werr := to.Write(buf[:got])
			n.Add(int64(sent))
			if werr != nil {
				p.cut(fmt.Errorf("cannot pass bytes on: %w", werr))
				return
			}
			alive()
		}
		switch {
		case errors.Is(err, io.EOF):
			p.end(to)
			return
		case err != nil:
			p.cut(fmt.Errorf("cannot read: %w", err))
			return
		}
	}
}

// end passes on that nothing more will come. Where a connection cannot say so, its other direction goes on, and the idle limit ends
// it: to close it would lose what the other side still sends.
func (p *pipe) end(to net.Conn) {
	half, ok := to.(interface{ CloseWrite() error })
	if !ok {
		return
	}
	if err := half.CloseWrite(); err != nil && !errors.Is(err, net.ErrClosed) {
		p.cut(fmt.Errorf("cannot end a direction: %w", err))
	}
}

// cut ends both connections at once, as a broken one and not as one that came to its end, so that nobody takes half for the whole.
func (p *pipe) cut(why error) {
	p.once.Do(func() {
		p.cause = why
		for _, c := range []net.Conn{p.a, p.b} {
			if tcp, ok := c.(interface{ SetLinger(int) error }); ok {
				_ = tcp.SetLinger(0) // where it cannot be told apart, closing has to do
			}
			_ = c.Close() // its copy sees it
		}
	})
}
