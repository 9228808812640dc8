package tailnet

import (
	"fmt"
	"net"
	"sync"

	"tailscale.com/tsnet"
)

// relisten is a listener that goes on when the node below it is replaced.
type relisten struct {
	port    uint16
	arrived chan net.Conn
	done    chan struct{}
	once    sync.Once
	onClose func()

	mu    sync.Mutex
	below net.Listener
}

func newRelisten(port uint16, onClose func()) *relisten {
	return &relisten{port: port, arrived: make(chan net.Conn), done: make(chan struct{}), onClose: onClose}
}

// open listens on a node. What it listened on before is closed with its node.
func (l *relisten) open(s *tsnet.Server) error {
	below, err := s.Listen("tcp", portAddr(l.port))
	if err != nil {
		return fmt.Errorf("cannot listen on port %d of the tunnel: %w", l.port, err)
	}
	l.mu.Lock()
	l.below = below
	l.mu.Unlock()
	go func() {
		for {
			c, err := below.Accept()
			if err != nil {
				return
			}
			select {
			case l.arrived <- c:
			case <-l.done:
				_ = c.Close()
			}
		}
	}()
	return nil
}

// Accept implements net.Listener.
func (l *relisten) Accept() (net.Conn, error) {
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
func (l *relisten) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.mu.Lock()
		below := l.below
		l.mu.Unlock()
		if below != nil {
			_ = below.Close()
		}
		l.onClose()
	})
	return nil
}

// Addr implements net.Listener.
func (l *relisten) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv6unspecified, Port: int(l.port)} }
