package proxmox

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestAStorm lets many clients and a human do anything at once, with every fault, and looks at what is left: nothing hangs, every task
// has ended, every disk belongs to a machine or to one that was broken off, and who may not touch a human's machine has not.
func TestAStorm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(6) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			storm(t, seed+1)
		})
	}
}

func storm(t *testing.T, seed uint64) {
	r := templated(t, Options{Seed: int64(seed), Cluster: threeNodesOn("local", "dir")})
	tok := r.Scoped("zoomies", "z@pve", "t", "vmbr0", "local")
	r.AddPool("zoomies", 200)
	for i := range 5 {
		r.must(r.Create("pve1", 300+i, map[string]string{"name": "theirs"}))
	}
	for _, e := range []Effect{LoseBefore, LoseAfter, RefuseBefore, RefuseAfter, KillWorker, FillStorage, SlowDisk, Thief} {
		r.Inject(Fault{Effect: e, Path: "/nodes/*/qemu/*/clone", Times: -1, Probability: 0.05, Factor: 10})
	}
	var wg sync.WaitGroup
	for n := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			for range 60 {
				id := 300 + rng.IntN(15)
				at := fmt.Sprintf("%s/%d", q, id)
				switch rng.IntN(8) {
				case 0, 1:
					r.as(tok, "POST", q+"/200/clone", fmt.Sprintf("newid=%d&pool=zoomies&full=%d", id, rng.IntN(2)))
				case 2:
					r.as(tok, "PUT", at+"/config", "cores=2&tags=a")
				case 3:
					r.as(tok, "POST", at+"/status/start", "")
				case 4:
					r.as(tok, "POST", at+"/status/stop", "")
				case 5:
					r.as(tok, "DELETE", at, "")
				case 6:
					r.as(tok, "GET", "/cluster/resources", "")
				case 7:
					if rng.IntN(4) == 0 {
						_ = r.Delete(id)
					}
				}
			}
		})
	}
	wg.Wait()
	for r.Running() > 0 {
		<-r.Changed()
	}
	if got := r.Trespasses(); len(got) > 0 {
		t.Errorf("a human's machine was touched: %v", got)
	}
	for upid := range r.tasks {
		if exit, _ := r.Exit(upid); exit == "" {
			t.Errorf("%s has not ended", upid)
		}
	}
	broken := map[int]bool{}
	for _, m := range r.Machines() {
		broken[m.VMID] = m.Lock != ""
	}
	for _, vol := range r.Volumes("pve1", "local") {
		name, err := r.volume(vol)
		_, exists := broken[name.owner]
		killed := slices.ContainsFunc(r.Changes(), func(c Change) bool { return c.VMID == name.owner && c.Who == Human && c.Action == "destroy" })
		if err != nil || !exists && !killed { // what a human deletes under a running worker may leave its disk
			t.Errorf("%s belongs to nobody (%s)", vol, strings.TrimSuffix(filepath.Base(vol), ".qcow2"))
		}
	}
	for id, l := range r.locks {
		if l.held || l.shared > 0 {
			t.Errorf("the lock of %d is still held", id)
		}
	}
}

// threeNodesOn is three nodes with one storage.
func threeNodesOn(id, kind string) Cluster {
	c := ThreeNodes()
	c.Storages = []Storage{{ID: id, Kind: kind, Content: contents}}
	return c
}
