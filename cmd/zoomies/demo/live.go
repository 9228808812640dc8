package demo

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// liveController is the controller that runs now, whichever that is: the agent must live through a restart of it, as it does over HTTP.
type liveController struct{ f *Fleet }

var errDown = errors.New("the controller is not running")

func (l liveController) now() (protocol.Controller, error) {
	k := l.f.Controller()
	if k == nil {
		return nil, errDown
	}
	return k.Agents(), nil
}

func (l liveController) Join(ctx context.Context, req protocol.JoinRequest) (protocol.JoinResponse, error) {
	c, err := l.now()
	if err != nil {
		return protocol.JoinResponse{}, err
	}
	return c.Join(ctx, req)
}

func (l liveController) Heartbeat(ctx context.Context, cred protocol.Credential, hb protocol.Heartbeat) (protocol.HeartbeatResponse, error) {
	c, err := l.now()
	if err != nil {
		return protocol.HeartbeatResponse{}, err
	}
	return c.Heartbeat(ctx, cred, hb)
}

func (l liveController) Poll(ctx context.Context, cred protocol.Credential, wait time.Duration) (*protocol.Task, error) {
	c, err := l.now()
	if err != nil {
		return nil, err
	}
	return c.Poll(ctx, cred, wait)
}

func (l liveController) Result(ctx context.Context, cred protocol.Credential, res protocol.TaskResult) error {
	c, err := l.now()
	if err != nil {
		return err
	}
	return c.Result(ctx, cred, res)
}

func (l liveController) Report(ctx context.Context, cred protocol.Credential, reports []protocol.RunnerReport) (protocol.ReportResponse, error) {
	c, err := l.now()
	if err != nil {
		return protocol.ReportResponse{}, err
	}
	return c.Report(ctx, cred, reports)
}

func (l liveController) SendLogs(ctx context.Context, cred protocol.Credential, stream string, r io.Reader) error {
	c, err := l.now()
	if err != nil {
		return err
	}
	return c.SendLogs(ctx, cred, stream, r)
}

// localOnly accepts connections from this machine alone: its loopback, its own addresses, and the networks of the bridges that
// its containers hang on.
type localOnly struct{ net.Listener }

func (l localOnly) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if from, ok := c.RemoteAddr().(*net.TCPAddr); ok && local(from.IP) {
			return c, nil
		}
		_ = c.Close() // a stranger: nothing to say
	}
}

func local(ip net.IP) bool {
	if ip.IsLoopback() {
		return true
	}
	ifs, err := net.Interfaces()
	if err != nil {
		return false
	}
	for _, i := range ifs {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			n, ok := a.(*net.IPNet)
			if ok && (n.IP.Equal(ip) || isBridge(i.Name) && n.Contains(ip)) {
				return true
			}
		}
	}
	return false
}

// isBridge says whether an interface is one that Podman made for its containers.
func isBridge(name string) bool {
	return strings.HasPrefix(name, "podman") || strings.HasPrefix(name, "cni-")
}
