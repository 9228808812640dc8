package serve

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/zoomies-fleet/zoomies/agent"
	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// AgentOptions are of the agent inside a controller.
type AgentOptions struct {
	Controller protocol.Controller
	// NewJoinToken is the controller's.
	NewJoinToken func(ctx context.Context, host string, embedded bool, ttl time.Duration) (string, error)
	Backends     []backend.Backend
	Bind         func(hostID string) ([]backend.Backend, error)
	Dir          string // the data folder
	Name         string
	Version      string
	Capacity     int
	ImageKeep    time.Duration // see agent.Config
	Logger       *slog.Logger
}

// joinTTL is how long a join token of the agent lives: it is made when the agent needs one, and used at once.
const joinTTL = time.Minute

// AgentState is the agent's state file.
func AgentState(dataDir string) string { return filepath.Join(dataDir, "agent.json") }

// Agent runs the agent inside a controller until ctx ends. Runners go on.
func Agent(ctx context.Context, o AgentOptions) error {
	return agent.Serve(ctx, agent.Config{
		Controller: o.Controller, Address: "in-process", Backends: o.Backends, Bind: o.Bind, StatePath: AgentState(o.Dir),
		NewJoinToken: func(ctx context.Context) (string, error) { return o.NewJoinToken(ctx, o.Name, true, joinTTL) },
		Name:         o.Name, Version: o.Version, Capacity: o.Capacity, ImageKeep: o.ImageKeep, WorkDir: o.Dir, Logger: o.Logger,
	})
}
