package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/agent"
	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller"
	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
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
	stop  context.CancelFunc
	done  chan struct{}
	http  *http.Server
}

// AgentRun is one run of the agent.
type AgentRun struct {
	agent *agent.Agent
	node  *Node
	stop  context.CancelFunc
	done  chan error
}

// Backend sees the agent's own workloads.
func (r *AgentRun) Backend() *podman.Backend { return r.node.podman(r.agent.HostID()) }

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
	keys, err := secrets.LoadOrCreate(filepath.Join(n.o.Dir, "zoomies.keys"))
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, store.Options{Path: filepath.Join(n.o.Dir, "zoomies.db"), Keys: keys, Logger: n.o.Logger})
	if err != nil {
		return err
	}
	if n.prepare != nil {
		if err := n.prepare(ctx, st); err != nil {
			return errors.Join(err, st.Close())
		}
	}
	k, err := n.newControl(ctx, st)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.control = k
	return nil
}

func (n *Node) newControl(ctx context.Context, st *store.Store) (*Control, error) {
	clients := controller.GitHubClients(github.MintsPerMinute)
	c, err := controller.New(ctx, controller.Options{
		Store: st, Settings: n.o.Settings, Version: "demo", Logger: n.o.Logger.With("room", "controller"),
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
	if n.o.Listen == "" {
		n.o.Listen = "127.0.0.1:0"
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", n.o.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the controller: %w", err)
	}
	n.o.Listen = ln.Addr().String()
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	k := &Control{
		Controller: c, Store: st, stop: stop, done: make(chan struct{}),
		http: &http.Server{Handler: c.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute},
	}
	go func() { _ = k.http.Serve(ln) }() // ends with http.ErrServerClosed
	go func() {
		defer close(k.done)
		if err := c.Run(run); err != nil {
			n.o.Logger.Error("the controller stopped", "err", err)
		}
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
	err := k.http.Close()
	<-k.done
	return errors.Join(err, k.Store.Close())
}

// HostName is the embedded agent's name in the fleet.
const HostName = "demo-host"

// StartAgent starts the embedded agent, for the first time or again.
func (n *Node) StartAgent(ctx context.Context) error {
	var to protocol.Controller = live{n}
	if n.o.WrapAgents != nil {
		to = n.o.WrapAgents(to)
	}
	a, err := agent.New(agent.Config{
		Controller: to, Address: "in-process", Backends: []backend.Backend{n.podman("")},
		Bind:      func(hostID string) ([]backend.Backend, error) { return []backend.Backend{n.bound(hostID)}, nil },
		StatePath: filepath.Join(n.o.Dir, "agent.json"), NewJoinToken: n.joinToken,
		Name: HostName, Version: "demo", Capacity: n.o.Capacity, WorkDir: n.o.Dir, ImageKeep: n.o.ImageKeep, Logger: n.o.Logger.With("room", "agent"),
	})
	if err != nil {
		return err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &AgentRun{agent: a, node: n, stop: stop, done: make(chan error, 1)}
	go func() { r.done <- a.Run(run) }()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.agent = r
	return nil
}

// joinToken is asked for when the agent's host is not known yet.
func (n *Node) joinToken(ctx context.Context) (string, error) {
	k := n.Controller()
	if k == nil {
		return "", errDown
	}
	return k.NewJoinToken(ctx, HostName, true, time.Minute)
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
