package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/demo"
	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// childVariable makes this test binary a controller that may kill itself, instead of running tests.
const childVariable = "ZOOMIES_E2E_CHILD"

// childOptions travel to the child in childVariable.
type childOptions struct {
	Dir, Socket, Listen string
	KillAt              int // index in killPoints; -1 is never
}

// die is a kill that nothing in the process can soften: no deferred function runs, no connection is closed in order.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // does not return
	select {}
}

// child runs a controller with its agent until it is told to end, or kills itself.
func child() int {
	var o childOptions
	if err := json.Unmarshal([]byte(os.Getenv(childVariable)), &o); err != nil {
		return fail(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	at := func(point int) {
		if point == o.KillAt {
			die()
		}
	}
	n := demo.NewNode(demo.NodeOptions{
		Dir: o.Dir, Socket: o.Socket, Listen: o.Listen, Capacity: 2, Settings: quick(), Logger: testLog(),
		WrapGitHub:  func(a github.API) github.API { return killGitHub{a, at} },
		WrapAgents:  func(c protocol.Controller) protocol.Controller { return killAgents{c, at, o.KillAt == taskWritten} },
		WrapBackend: func(b *podman.Backend) backend.Backend { return killBackend{b, at} },
	})
	if err := n.StartController(ctx); err != nil {
		return fail(err)
	}
	watchFor(ctx, n, at)
	if err := n.StartAgent(ctx); err != nil {
		return fail(err)
	}
	<-ctx.Done()
	return 0
}

// Points that are no call between two parts but a state of the database.
const (
	taskWritten = 2
	jobRunning  = 8
)

func watchFor(ctx context.Context, n *demo.Node, at func(int)) {
	sub := n.Controller().Events().Subscribe(1024)
	st := n.Controller().Store
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-sub.C:
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			rs, err := st.Runners(ctx, store.RunnerFilter{})
			if err != nil {
				fmt.Fprintln(os.Stderr, "cannot read runners:", err)
				return
			}
			for _, r := range rs {
				if r.State == store.RunnerBusy {
					at(jobRunning)
				}
				if ts, err := st.Tasks(ctx, r.ID); err == nil && len(ts) > 0 {
					at(taskWritten)
				}
			}
		}
	}()
}

type killGitHub struct {
	github.API
	at func(int)
}

func (k killGitHub) MintJIT(ctx context.Context, s github.Scope, r github.JITRequest) (github.JIT, error) {
	k.at(0)
	j, err := k.API.MintJIT(ctx, s, r)
	k.at(1)
	return j, err
}

type killAgents struct {
	protocol.Controller
	at   func(int)
	deaf bool // the agent never hears of a task
}

func (k killAgents) Poll(ctx context.Context, cred protocol.Credential, wait time.Duration) (*protocol.Task, error) {
	if k.deaf {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	t, err := k.Controller.Poll(ctx, cred, wait)
	if t != nil && t.Kind == protocol.TaskCreate {
		k.at(3)
	}
	return t, err
}

func (k killAgents) Result(ctx context.Context, cred protocol.Credential, res protocol.TaskResult) error {
	err := k.Controller.Result(ctx, cred, res)
	k.at(6)
	return err
}

func (k killAgents) Report(ctx context.Context, cred protocol.Credential, reports []protocol.RunnerReport) (protocol.ReportResponse, error) {
	ended := false
	for _, r := range reports {
		ended = ended || r.State == string(store.RunnerRemoved)
	}
	if len(reports) > 0 {
		k.at(7)
	}
	if ended {
		k.at(9)
	}
	resp, err := k.Controller.Report(ctx, cred, reports)
	if ended {
		k.at(10)
	}
	return resp, err
}

type killBackend struct {
	*podman.Backend
	at func(int)
}

func (k killBackend) Create(ctx context.Context, spec backend.Spec) (backend.Workload, error) {
	k.at(4)
	w, err := k.Backend.Create(ctx, spec)
	k.at(5)
	return w, err
}
