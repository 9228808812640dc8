package demo

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent"
	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/serve"
	"github.com/zoomies-fleet/zoomies/controller"
	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// NodeOptions are of a controller and its embedded agent.
type NodeOptions struct {
	Dir      string // work folder, made by the caller
	Socket   string // of the Podman service
	Listen   string // "" is a free port of the loopback, kept over a restart
	Capacity int    // slots of the embedded agent
	Settings controller.Settings
	Logger   *slog.Logger
	// ImageKeep is agent.Config's.
	ImageKeep time.Duration
	// These put something between the parts (a kill point, a fault); may be nil.
	WrapAgents  func(protocol.Controller) protocol.Controller
	WrapGitHub  func(github.API) github.API
	WrapBackend func(*podman.Backend) backend.Backend
}

// Node is a controller with its embedded agent, each of which can be stopped and started again.
type Node struct {
	o NodeOptions
	// prepare fills the database before the controller starts over it; may be nil.
	prepare func(context.Context, *store.Store) error

	mu      sync.Mutex
	control *Control
	agent   *AgentRun
}

// Control is one run of the controller.
type Control struct {
	*controller.Controller
	Store *store.Store
	db    *serve.Database
	stop  context.CancelFunc
	done  chan error
}

// AgentRun is one run of the agent.
type AgentRun struct {
	node *Node
	stop context.CancelFunc
	done chan error
}

// Backend sees the agent's own workloads; none before it has joined.
func (r *AgentRun) Backend() *podman.Backend {
	st, err := agent.LoadState(serve.AgentState(r.node.o.Dir))
	if err != nil || st.HostID == "" {
		return r.node.podman("none yet")
	}
	return r.node.podman(st.HostID)
}

func (n *Node) podman(hostID string) *podman.Backend {
	return podman.New(podman.Options{Socket: n.o.Socket, HostID: hostID, Logger: n.o.Logger})
}

// bound is what the agent of that host runs its runners with.
func (n *Node) bound(hostID string) backend.Backend {
	if n.o.WrapBackend != nil {
		return n.o.WrapBackend(n.podman(hostID))
	}
	return n.podman(hostID)
}

// NewNode prepares a node; nothing runs yet.
func NewNode(o NodeOptions) *Node { return &Node{o: o} }

// StartController starts the controller over the node's database, for the first time or again.
func (n *Node) StartController(ctx context.Context) error {
	files := serve.Files{Database: filepath.Join(n.o.Dir, "zoomies.db"), Keys: filepath.Join(n.o.Dir, "zoomies.keys")}
	db, err := serve.Open(ctx, files, false, n.o.Logger)
	if err != nil {
		return err
	}
	if n.prepare != nil {
		if err := n.prepare(ctx, db.Store); err != nil {
			return errors.Join(err, db.Close())
		}
	}
	k, err := n.newControl(ctx, db)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.control = k
	return nil
}

func (n *Node) newControl(ctx context.Context, db *serve.Database) (*Control, error) {
	clients := controller.GitHubClients(github.MintsPerMinute)
	if n.o.Listen == "" {
		n.o.Listen = "127.0.0.1:0"
	}
	svc, err := serve.New(ctx, serve.Options{
		Database: db, Settings: n.o.Settings, Version: "demo", Listen: n.o.Listen, Dir: n.o.Dir, PublicMetrics: true,
		Logger: n.o.Logger.With("room", "controller"),
		GitHub: func(in store.Installation) (github.API, error) {
			api, err := clients(in)
			if err == nil && n.o.WrapGitHub != nil {
				return n.o.WrapGitHub(api), nil
			}
			return api, err
		},
	})
	if err != nil {
		return nil, err
	}
	n.o.Listen = svc.Address()
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	k := &Control{Controller: svc.Controller, Store: db.Store, db: db, stop: stop, done: make(chan error, 1)}
	go func() {
		err := svc.Run(run)
		if err != nil && run.Err() == nil {
			n.o.Logger.Error("the controller stopped", "err", err)
		}
		k.done <- err
	}()
	return k, nil
}

// URL is where the controller serves.
func (n *Node) URL() string { return "http://" + n.o.Listen }

// WebhookURL is where GitHub sends its deliveries.
func (n *Node) WebhookURL() string { return n.URL() + "/webhooks/github" }

// Controller is the controller that runs now, or nil.
func (n *Node) Controller() *Control {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.control
}

// StopController ends the controller and closes its store. Runners go on.
func (n *Node) StopController() error {
	n.mu.Lock()
	k := n.control
	n.control = nil
	n.mu.Unlock()
	if k == nil {
		return nil
	}
	k.stop()
	err := <-k.done
	if errors.Is(err, context.Canceled) {
		err = nil // stopped before it had quite started
	}
	return errors.Join(err, k.db.Close())
}

// HostName is the embedded agent's name in the fleet.
const HostName = "demo-host"

// StartAgent starts the embedded agent, for the first time or again.
func (n *Node) StartAgent(ctx context.Context) error {
	var to protocol.Controller = live{n}
	if n.o.WrapAgents != nil {
		to = n.o.WrapAgents(to)
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &AgentRun{node: n, stop: stop, done: make(chan error, 1)}
	go func() {
		r.done <- serve.Agent(run, serve.AgentOptions{
			Controller: to, NewJoinToken: n.joinToken, Backends: []backend.Backend{n.podman("")}, Dir: n.o.Dir,
			Bind: func(hostID string) ([]backend.Backend, error) { return []backend.Backend{n.bound(hostID)}, nil },
			Name: HostName, Version: "demo", Capacity: n.o.Capacity, ImageKeep: n.o.ImageKeep, Logger: n.o.Logger.With("room", "agent"),
		})
	}()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.agent = r
	return nil
}

// joinToken is asked for when the agent's host is not known yet.
func (n *Node) joinToken(ctx context.Context, host string, embedded bool, ttl time.Duration) (string, error) {
	k := n.Controller()
	if k == nil {
		return "", errDown
	}
	return k.NewJoinToken(ctx, host, embedded, ttl)
}

// Agent is the agent that runs now, or nil.
func (n *Node) Agent() *AgentRun {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.agent
}

// StopAgent ends the agent. Its runners go on.
func (n *Node) StopAgent() error {
	n.mu.Lock()
	r := n.agent
	n.agent = nil
	n.mu.Unlock()
	if r == nil {
		return nil
	}
	r.stop()
	if err := <-r.done; err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
