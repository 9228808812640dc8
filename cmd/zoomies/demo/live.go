package demo

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// live is the controller that runs now, whichever that is: the agent must live through a restart of it, as it does over HTTP.
type live struct{ n *Node }

var errDown = errors.New("the controller is not running")

func (l live) now() (protocol.Controller, error) {
	k := l.n.Controller()
	if k == nil {
		return nil, errDown
	}
	return k.Agents(), nil
}

func (l live) Join(ctx context.Context, req protocol.JoinRequest) (protocol.JoinResponse, error) {
	c, err := l.now()
	if err != nil {
		return protocol.JoinResponse{}, err
	}
	return c.Join(ctx, req)
}

func (l live) Heartbeat(ctx context.Context, cred protocol.Credential, hb protocol.Heartbeat) (protocol.HeartbeatResponse, error) {
	c, err := l.now()
	if err != nil {
		return protocol.HeartbeatResponse{}, err
	}
	return c.Heartbeat(ctx, cred, hb)
}

func (l live) Poll(ctx context.Context, cred protocol.Credential, wait time.Duration) (*protocol.Task, error) {
	c, err := l.now()
	if err != nil {
		return nil, err
	}
	return c.Poll(ctx, cred, wait)
}

func (l live) Result(ctx context.Context, cred protocol.Credential, res protocol.TaskResult) error {
	c, err := l.now()
	if err != nil {
		return err
	}
	return c.Result(ctx, cred, res)
}

func (l live) Report(ctx context.Context, cred protocol.Credential, reports []protocol.RunnerReport) (protocol.ReportResponse, error) {
	c, err := l.now()
	if err != nil {
		return protocol.ReportResponse{}, err
	}
	return c.Report(ctx, cred, reports)
}

func (l live) SendLogs(ctx context.Context, cred protocol.Credential, stream string, r io.Reader) error {
	c, err := l.now()
	if err != nil {
		return err
	}
	return c.SendLogs(ctx, cred, stream, r)
}
