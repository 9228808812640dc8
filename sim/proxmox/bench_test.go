package proxmox

import (
	"fmt"
	"testing"
	"time"
)

// crowd is a cluster with machines of others and of ours.
func crowd(tb testing.TB, foreign, ours int) (*Server, string) {
	tb.Helper()
	clock := NewVirtual(epoch)
	s, err := New(Options{Cluster: ThreeNodes(), Clock: clock})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	c := s.Console()
	token := c.Scoped("zoomies", "z@pve", "t", "vmbr0", "local", "shared")
	c.Grant("/", "z@pve", "PVEAuditor")
	c.Grant("/", "z@pve!t", "PVEAuditor")
	for i := range foreign + ours {
		node := fmt.Sprintf("pve%d", i%3+1)
		conf := map[string]string{"name": fmt.Sprintf("vm-%d", i), "tags": "office", "scsi0": "shared:0.001", "net0": "virtio,bridge=vmbr0"}
		if err := c.Create(node, 1000+i, conf); err != nil {
			tb.Fatal(err)
		}
		if i >= foreign {
			c.AddPool("zoomies", 1000+i)
		}
	}
	clock.Advance(time.Minute)
	return s, token
}

// TestACrowd: 5,000 machines of others and 200 of ours are all there, in one answer.
func TestACrowd(t *testing.T) {
	t.Parallel()
	s, token := crowd(t, 5000, 200)
	r := newRigFor(t, s)
	for path, n := range map[string]int{"/cluster/resources?type=vm": 5200, "/nodes/pve1/qemu": 1734} {
		began := time.Now()
		rows := r.as(token, "GET", path, "").want(200, "OK").rows()
		if len(rows) != n {
			t.Errorf("%s has %d rows, want %d", path, len(rows), n)
		}
		t.Logf("%s took %v", path, time.Since(began)) // the benchmarks measure it
	}
	rows := r.as(token, "GET", "/pools?poolid=zoomies", "").want(200, "OK").rows()
	if members, ok := rows[0]["members"].([]any); !ok || len(members) != 200 {
		t.Errorf("the pool has %d members", len(members))
	}
}

func BenchmarkClusterResources(b *testing.B) {
	s, token := crowd(b, 5000, 200)
	r := newRigFor(b, s)
	for b.Loop() {
		r.as(token, "GET", "/cluster/resources?type=vm", "").want(200, "OK")
	}
}

func BenchmarkPool(b *testing.B) {
	s, token := crowd(b, 5000, 200)
	r := newRigFor(b, s)
	for b.Loop() {
		r.as(token, "GET", "/pools?poolid=zoomies", "").want(200, "OK")
	}
}
