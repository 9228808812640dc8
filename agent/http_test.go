package agent

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/fake"
	"github.com/zoomies-fleet/zoomies/agent/httpclient"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// The same agent over a real network: both halves of the transport, in real time.
func TestTheAgentOverHTTP(t *testing.T) {
	t.Parallel()
	ctl, engine := newScripted(), fake.New("podman", nil)
	srv := httptest.NewServer(protocol.Handler(ctl))
	defer srv.Close()
	client, err := httpclient.New(httpclient.Options{Address: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	a, err := New(Config{
		Controller: client, Address: client.Address(), Backends: []backend.Backend{engine},
		StatePath: filepath.Join(t.TempDir(), "agent.json"), JoinToken: "zoojoin_one", Name: "host-a",
		Machine: machine{}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()

	ctl.offer(createTask("run_1"))
	eventually(t, "the create is answered", func() bool { res, _ := ctl.result("tsk_create_run_1"); return res.OK })
	engine.Print("run_1", "hello\n")
	ctl.offer(streamTask("run_1", "s", true, 0))
	eventually(t, "the log arrives", func() bool {
		ctl.mu.Lock()
		defer ctl.mu.Unlock()
		return ctl.logs["s"] == "hello\n"
	})
	engine.Exit("run_1", 0)
	eventually(t, "the end is told and nothing is left", func() bool {
		return ctl.last("run_1").Phase == protocol.PhaseMissing && engine.Count() == 0
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	patience := time.After(20 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-patience:
			t.Fatalf("not in time: %s", what)
		}
	}
}
