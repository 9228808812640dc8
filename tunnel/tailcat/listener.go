package tailcat

import (
	"net"
	"net/netip"
	"sync"
)

// backlog is how many connections may wait to be accepted.
const backlog = 128

// listener hands out what arrives for one port, through whichever entrance.
type listener struct {
	port    uint16
	arrived chan net.Conn
	done    chan struct{}
	once    sync.Once
	onClose func()
}

func newListener(port uint16, onClose func()) *listener {
	return &listener{port: port, arrived: make(chan net.Conn, backlog), done: make(chan struct{}), onClose: onClose}
}

func (l *listener) push(c net.Conn) {
	select {
	case <-l.done:
		_ = c.Close()
	case l.arrived <- c:
		select {
		case <-l.done: // nobody takes it any more
			l.drain()
		default:
		}
	default:
		_ = c.Close() // a server that does not keep up is better heard of at once
	}
}

func (l *listener) drain() {
	for {
		select {
		case c := <-l.arrived:
			_ = c.Close()
		default:
			return
		}
	}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case <-l.done:
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-l.arrived:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.onClose()
		l.drain()
	})
	return nil
}

// Addr implements net.Listener. The address of the host depends on the entrance, and is left
// out.
func (l *listener) Addr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.IPv6Unspecified(), l.port))
}
