package github

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/zoomies-fleet/zoomies/tests/contract"
)

// pipeNet is a network in memory, so that a server can live in a synctest bubble where hours pass at once.
type pipeNet struct {
	mu    sync.Mutex
	hosts map[string]*pipeListener
}

type pipeListener struct {
	name   string
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) Network() string { return "pipe" }
func (l *pipeListener) String() string  { return l.name }
func (l *pipeListener) Addr() net.Addr  { return l }

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (n *pipeNet) listen(name string) net.Listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts == nil {
		n.hosts = map[string]*pipeListener{}
	}
	l := &pipeListener{name: name, conns: make(chan net.Conn), closed: make(chan struct{})}
	n.hosts[name] = l
	return l
}

func (n *pipeNet) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	n.mu.Lock()
	l := n.hosts[addr]
	n.mu.Unlock()
	if l == nil {
		return nil, fmt.Errorf("no host %s", addr)
	}
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.closed:
	case <-ctx.Done():
	}
	_ = client.Close()
	return nil, fmt.Errorf("%s does not answer", addr)
}

// inBubble runs a test with a rig in a bubble: time passes when everybody waits. The descriptions and the
// key are loaded before, as they belong to the process.
func inBubble(t *testing.T, o Options, f func(t *testing.T, r *rig)) {
	t.Helper()
	contract.NewREST(t)
	contract.NewWebhooks(t)
	if _, err := appKey(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { f(t, buildRig(t, o, &pipeNet{})) })
}
