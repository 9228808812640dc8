package proxmox

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder is a driver that writes down what it starts.
type recorder struct {
	NullDriver
	mu   sync.Mutex
	fail error
	seen []VM
}

func (d *recorder) Start(ctx context.Context, vm VM) (Guest, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		return nil, d.fail
	}
	d.seen = append(d.seen, vm)
	return d.NullDriver.Start(ctx, vm)
}

// TestTheScriptOfFaults: each does what it says, once, and nothing else.
func TestTheScriptOfFaults(t *testing.T) {
	t.Parallel()
	const clones = "/nodes/*/qemu/*/clone"
	for _, tt := range []struct {
		effect Effect
		status int // of the clone's answer
		reason string
		made   bool // whether the clone is there in the end
	}{
		{LoseBefore, 0, "", false},
		{LoseAfter, 0, "", true},
		{RefuseBefore, 596, "Connection timed out", false},
		{RefuseAfter, 596, "Connection timed out", true},
		{Delay, 200, "OK", true},
		{SlowDisk, 200, "OK", true},
		{Thief, 500, "unable to create VM 201: config file already exists", true},
		{NodeOffline, 596, "Connection timed out", false},
		{RevokeToken, 200, "OK", true},
		{Do, 500, "VM is locked (backup)", false},
	} {
		t.Run(string(tt.effect), func(t *testing.T) {
			t.Parallel()
			r := templated(t, Options{})
			tok := r.AddToken("root@pam", "victim", false)
			in := r.Inject(Fault{
				Effect: tt.effect, Method: "POST", Path: clones, Delay: 20 * time.Second, Factor: 50,
				Hook: func(c *Console) { _ = c.Set(200, "lock", "backup") },
			})
			before := r.clock.Now()
			g := r.as(tok, "POST", q+"/200/clone", "newid=201")
			if g.status != tt.status || g.reason != tt.reason {
				t.Errorf("answered %d %s", g.status, g.reason)
			}
			for r.Running() > 0 {
				<-r.Changed()
			}
			took := r.clock.Now().Sub(before)
			m, made := r.Machine(201)
			if made != tt.made || in.Hits() != 1 {
				t.Errorf("made: %v, hits: %d", made, in.Hits())
			}
			switch tt.effect { //nolint:exhaustive // what more there is to say of some
			case SlowDisk, Delay:
				if took < 20*time.Second {
					t.Errorf("took %v", took)
				}
			case Thief:
				if m.Maker != Human || m.Name != "thief-201" {
					t.Errorf("the thief's machine: %+v", m)
				}
			case RevokeToken:
				r.as(tok, "GET", "/version", "").want(401, "Authentication failed!")
			case NodeOffline:
				r.do("GET", q, "").want(200, "OK") // it is back
			}
		})
	}
}

// TestFaultsAreCounted: skipping, repeating, taking away, and chance by seed.
func TestFaultsAreCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Seed: 7})
	hits := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(map[bool]byte{true: '.', false: 'x'}[r.do("GET", "/version", "").status == 200])
		}
		return b.String()
	}
	in := r.Inject(Fault{Effect: RefuseBefore, Path: "/version", Skip: 1, Times: 2})
	if got := hits(5); got != ".xx.." {
		t.Errorf("hits: %s", got)
	}
	in.Remove()
	in = r.Inject(Fault{Effect: RefuseBefore, Path: "/version", Times: -1, Probability: 0.5, Status: 502, Reason: "Bad Gateway"})
	first := hits(40)
	in.Remove()
	if n := strings.Count(first, "x"); n < 8 || n > 32 {
		t.Errorf("a chance of a half hits %d of 40", n)
	}
	if got := hits(3); got != "..." {
		t.Errorf("after it was taken away: %s", got)
	}
}

// TestADriverThatFails fails the start, with its words.
func TestADriverThatFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Driver: &recorder{fail: errors.New("QEMU exited with code 1")}})
	r.must(r.Create("pve1", 200, nil))
	r.want("start failed: QEMU exited with code 1", "POST", q+"/200/status/start", "")
	if m, _ := r.Machine(200); m.Running {
		t.Error("it runs")
	}
}

// TestTheAudit: who did what to whose machine, and that a refusal did nothing.
func TestTheAudit(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.must(r.Create("pve1", 100, map[string]string{"name": "payroll"}))
	r.want("OK", "POST", q, "vmid=200&name=ours")
	r.do("PUT", q+"/200/config", "cores=2").want(200, "OK")
	r.do("PUT", q+"/100/config", "lock=x").want(400, "Parameter verification failed.")
	r.must(r.Set(200, "name", "renamed"))
	if got := r.Trespasses(); len(got) != 0 {
		t.Errorf("trespasses: %v", got)
	}
	r.do("PUT", q+"/100/config", "cores=2").want(200, "OK")
	got := r.Trespasses()
	if len(got) != 1 || got[0].VMID != 100 || got[0].Who != "root@pam!full" || got[0].Action != "config" || got[0].Name != "payroll" {
		t.Errorf("trespasses: %v", got)
	}
	var actions []string
	for _, c := range r.Changes() {
		actions = append(actions, c.Who+" "+c.Action)
	}
	want := "human create,root@pam!full create,root@pam!full config,human config,root@pam!full config"
	if strings.Join(actions, ",") != want {
		t.Errorf("changes: %v", actions)
	}
}

// TestAHumanAtTheConsole plays what a human may do to a machine behind everybody's back.
func TestAHumanAtTheConsole(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Cluster: ThreeNodes()})
	r.must(r.Create("pve1", 100, map[string]string{"name": "x", "scsi0": "local-lvm:8", "tags": "B;a"}))
	r.must(r.Start(100))
	r.must(r.Set(100, "name", "y"))
	r.must(r.Stop(100))
	r.must(r.Migrate(100, "pve2"))
	r.must(r.Snapshot(100, "before"))
	m, ok := r.Machine(100)
	if !ok || m.Node != "pve2" || m.Name != "y" || m.Running || m.Config["tags"] != "a;b" || len(r.Volumes("pve2", "local-lvm")) != 1 {
		t.Errorf("the machine: %+v", m)
	}
	r.do("GET", "/nodes/pve1/qemu/100/config", "").want(500, "Configuration file 'nodes/pve1/qemu-server/100.conf' does not exist")
	r.do("GET", "/nodes/pve2/qemu/100/config?snapshot=before", "").want(200, "OK")
	r.must(r.Delete(100))
	if len(r.Machines()) != 0 || len(r.Volumes("pve2", "local-lvm")) != 0 {
		t.Error("something is left")
	}
	if r.Delete(100) == nil || r.Create("nosuch", 1, nil) == nil {
		t.Error("what cannot be done is no error")
	}
}
