package podman_test

import (
	"fmt"
	"testing"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/backendtest"
	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
)

// writes puts eight megabytes and a hundred files into the container, its work folder, and a user's own folder.
const writes = `dd if=/dev/zero of=/home/big bs=1M count=4 2>/dev/null
dd if=/dev/zero of=` + backend.WorkDir + `/big bs=1M count=4 2>/dev/null
i=0; while [ $i -lt 100 ]; do echo $i >` + backend.WorkDir + `/$i; i=$((i+1)); done
mkdir -m 700 ` + backend.WorkDir + `/own && echo secret >` + backend.WorkDir + `/own/file && chown -R 1001:1001 ` + backend.WorkDir + `/own
echo ready; trap 'exit 7' TERM; while :; do sleep 0.1; done`

// A45: what pairs of runner and sidecar wrote is given back when they are removed, with root and without: nothing of it
// stays in Podman's storage, whichever user of the container owned it.
func TestStorageOfRemovedPairsIsGivenBack(t *testing.T) {
	engine := backendtest.Engine(t) // its own: the other tests' containers would be counted
	if err := engine.LoadDaemons(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := podman.New(podman.Options{Socket: engine.Socket, HostID: "hst_flat"})
	const pairs = 5
	var before backendtest.Usage
	pair := func(n int) {
		t.Helper()
		spec := backend.Spec{
			Name: fmt.Sprintf("zoomies-flat-%d", n), HostID: "hst_flat", RunnerID: fmt.Sprintf("run_flat_%d", n), PoolID: "pool_flat",
			Image: engine.Image, Policy: backend.PullNever, Network: "none", Command: []string{"sh", "-c", writes},
			Daemon: &backend.Daemon{Kind: backend.DaemonPodman, Image: backendtest.DaemonImage},
		}
		w, err := b.Create(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		engine.Says(t, w.ID, "ready")
		if n == pairs { // what is measured sees what a pair writes
			if full := engine.Usage(t); full.Bytes-before.Bytes < 8<<20 || full.Files-before.Files < 100 {
				t.Errorf("a pair that wrote is not seen: %+v, before %+v", full, before)
			}
		}
		if err := b.Remove(t.Context(), w.ID); err != nil {
			t.Fatal(err)
		}
	}
	pair(0) // the first makes databases and folders that stay
	before = engine.Usage(t)
	for n := range pairs {
		pair(n + 1)
	}
	after := engine.Usage(t)
	// Podman's database grows by itself; one pair's files are more than this.
	if bytes, files := after.Bytes-before.Bytes, after.Files-before.Files; bytes > 4<<20 || files > 50 {
		t.Errorf("after %d pairs there are %d bytes and %d files more", pairs, bytes, files)
	}
	if left := engine.Leftovers(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
