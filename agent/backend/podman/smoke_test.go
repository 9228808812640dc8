package podman_test

import (
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/backendtest"
	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
)

var engine *backendtest.EngineFixture

func TestMain(m *testing.M) {
	os.Exit(backendtest.Main(m, func(e *backendtest.EngineFixture) { engine = e }))
}

func TestSmoke(t *testing.T) {
	ctx := context.Background()
	b := podman.New(podman.Options{Socket: engine.Socket, HostID: "hst_1"})
	info, err := b.Probe(ctx)
	t.Log(info, err)
	ev, err := b.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for e := range ev {
			t.Log(time.Now(), e)
		}
	}()
	for i := range 2 {
		net := []string{"none", ""}[i]
		t0 := time.Now()
		w, err := b.Create(ctx, backend.Spec{Name: "a", RunnerID: "run_1", Image: engine.Image, Command: []string{"sh", "-c", "echo hi; id; grep Cap /proc/self/status; ls -la /home/runner"}, CPUs: 0.5, MemoryMB: 64, Network: net})
		t.Log(time.Since(t0), w, err)
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Logs(ctx, w.ID, backend.LogOptions{Follow: true})
		if err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(r)
		t.Log(string(all), err)
		t.Log(b.Stop(ctx, w.ID, time.Second))
		t.Log(time.Now())
		t.Log(b.List(ctx))
		t.Log(b.Remove(ctx, w.ID))
	}
}
