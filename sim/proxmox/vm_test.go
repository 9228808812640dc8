package proxmox

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

const q = "/nodes/pve1/qemu"

// templated is a rig with template 200 (a disk of 1 GiB, a network card) and a joined client's time.
func templated(t *testing.T, o Options) *rig {
	t.Helper()
	r := newRig(t, o)
	r.want("OK", "POST", q, form("vmid", "200", "name", "tmpl", "scsi0", "local:1,format=qcow2", "net0", "virtio,bridge=vmbr0", "onboot", "1", "tags", "A;b",
		"description", "theirs", "serial0", "socket", "scsihw", "virtio-scsi-pci"))
	r.want("OK", "POST", q+"/200/template", "")
	return r
}

// want begins a task, waits, and compares its end.
func (r *rig) want(exit, method, path, form string) {
	r.t.Helper()
	if got := r.task(r.root, method, path, form); got != exit {
		r.t.Fatalf("%s %s (%s) ended with %q, want %q", method, path, form, got, exit)
	}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) config(vmid int) map[string]any {
	r.t.Helper()
	return r.do("GET", fmt.Sprintf("%s/%d/config", q, vmid), "").want(200, "OK").row()
}

// TestWhatACloneInherits protects from taking tags, or anything but name and description, for ours.
func TestWhatACloneInherits(t *testing.T) {
	t.Parallel()
	r := templated(t, Options{})
	r.must(r.Set(200, "protection", "1"))
	r.must(r.Set(200, "smbios1", r.config(200)["smbios1"].(string)+",serial=abc"))
	r.want("OK", "POST", q+"/200/clone", form("newid", "201", "name", "mine", "description", "owner: x\n"))
	r.want("OK", "POST", q+"/200/clone", form("newid", "202"))
	tmpl, mine, bare := r.config(200), r.config(201), r.config(202)
	for _, k := range []string{"tags", "protection", "onboot", "scsihw", "serial0"} {
		if fmt.Sprint(mine[k]) != fmt.Sprint(tmpl[k]) {
			t.Errorf("%s is %v, the template's %v", k, mine[k], tmpl[k])
		}
	}
	for _, k := range []string{"smbios1", "vmgenid", "net0"} {
		if mine[k] == tmpl[k] || mine[k] == bare[k] {
			t.Errorf("%s is not the clone's own: %v", k, mine[k])
		}
	}
	if !strings.HasSuffix(mine["smbios1"].(string), ",serial=abc") {
		t.Errorf("smbios1 is %v", mine["smbios1"])
	}
	if mine["description"] != "owner: x" || bare["description"] != "theirs" || mine["name"] != "mine" || bare["name"] != "Copy-of-VM-tmpl" || mine["template"] != nil {
		t.Errorf("clones: %v, %v", mine, bare)
	}
	if mine["scsi0"] != "local:200/base-200-disk-0.qcow2/201/vm-201-disk-0.qcow2,size=1G" {
		t.Errorf("scsi0 is %v", mine["scsi0"])
	}
	r.do("DELETE", q+"/201", "").want(500, "can't remove VM 201 - protection mode enabled")
}

// TestWhatIsSeenWhileACloneRuns: nothing but a lock, and to who has rights by the pool alone not even that.
func TestWhatIsSeenWhileACloneRuns(t *testing.T) {
	t.Parallel()
	r := templated(t, Options{})
	tok := r.Scoped("zoomies", "z@pve", "t", "vmbr0", "local")
	r.AddPool("zoomies", 200)
	c := r.clock.Join()
	defer c.Leave()
	upid := r.as(tok, "POST", q+"/200/clone", form("newid", "640", "full", "1", "bwlimit", "30000", "name", "slow", "description", "d", "pool", "zoomies")).want(200, "OK").text()
	if u, ok := ParseUPID(upid); !ok || u.Kind != "qmclone" || u.ID != "200" || u.User != "z@pve!t" {
		t.Errorf("the task of a clone is %s", upid)
	}
	_ = c.Sleep(t.Context(), time.Second)
	conf := r.config(640)
	delete(conf, "digest")
	if len(conf) != 2 || conf["lock"] != "clone" || conf["description"] != " qmclone temporary file" {
		t.Errorf("config: %v", conf)
	}
	if name := r.do("GET", q+"/640/status/current", "").row()["name"]; name != "VM 640" {
		t.Errorf("it is called %v", name)
	}
	r.as(tok, "GET", q+"/640/config", "").want(403, "Permission check failed (/vms/640, VM.Audit)")
	for _, row := range r.do("GET", "/cluster/resources", "type=vm").rows() {
		if row["vmid"] == 640.0 && (row["status"] != "unknown" || row["lock"] != "clone" || row["name"] != nil || row["template"] != nil) {
			t.Errorf("the clone in the cluster's list: %v", row)
		}
	}
	r.do("PUT", q+"/640/config", "memory=333").want(500, "VM is locked (clone)")
	began := c.Now()
	if got := r.wait(c, r.do("DELETE", q+"/640", "").want(200, "OK").text()); got != "can't lock file '/var/lock/qemu-server/lock-640.conf' - got timeout" || c.Now().Sub(began) < 10*time.Second {
		t.Errorf("DELETE ended with %q after %v", got, c.Now().Sub(began))
	}
	if got := r.wait(c, upid); got != "OK" {
		t.Errorf("the clone ended with %q", got)
	}
}

// wait lets a joined client's time pass until a task ends.
func (r *rig) wait(c Client, upid string) string {
	r.t.Helper()
	for range 10000 {
		if exit, _ := r.Exit(upid); exit != "" {
			return exit
		}
		if err := c.Sleep(r.t.Context(), 200*time.Millisecond); err != nil {
			r.t.Fatal(err)
		}
	}
	r.t.Fatalf("task %s does not end", upid)
	return ""
}

// TestTheLocksWait: a clone waits one second for its source, anything else ten, in the task or in the call.
func TestTheLocksWait(t *testing.T) {
	t.Parallel()
	r := templated(t, Options{})
	r.want("OK", "POST", q, form("vmid", "350", "name", "plain", "scsi0", "local:100,format=qcow2"))
	c := r.clock.Join()
	defer c.Leave()
	timed := func(what string, limit time.Duration, call func() string, want string) {
		t.Helper()
		before := c.Now()
		if got := call(); got != want {
			t.Errorf("%s ended with %q", what, got)
		}
		if took := c.Now().Sub(before); took < limit || took > limit+2*time.Second {
			t.Errorf("%s waited %v, want %v", what, took, limit)
		}
	}
	timeout := func(id int) string {
		return fmt.Sprintf("can't lock file '/var/lock/qemu-server/lock-%d.conf' - got timeout", id)
	}
	// a full clone holds its source shared for 500 s
	slow := r.do("POST", q+"/350/clone", "newid=351&full=1").text()
	_ = c.Sleep(t.Context(), time.Second)
	timed("PUT of the source", lockOther, func() string { return r.do("PUT", q+"/350/config", "name=x").reason }, timeout(350))
	timed("a second clone of it", 0, func() string { return r.wait(c, r.do("POST", q+"/200/clone", "newid=352").text()) }, "OK")
	timed("start of the target", lockOther, func() string { return r.wait(c, r.do("POST", q+"/351/status/start", "").text()) }, timeout(351))
	if got := r.wait(c, slow); got != "OK" {
		t.Errorf("the slow clone ended with %q", got)
	}
	// a resize on a slow disk holds exclusively
	r.Slow("pve1", 100)
	r.do("PUT", q+"/350/resize", "disk=scsi0&size=%2B1G").want(200, "OK")
	_ = c.Sleep(t.Context(), 50*time.Millisecond)
	timed("a clone of what is held", lockClone, func() string { return r.wait(c, r.do("POST", q+"/350/clone", "newid=353").text()) }, timeout(350))
}

// TestRacesForANumber: whoever comes second loses in the call or in the task, with the same words, and the winner is unharmed.
func TestRacesForANumber(t *testing.T) {
	t.Parallel()
	r := templated(t, Options{})
	ids := map[string]bool{}
	for range 3 {
		ids[r.do("GET", "/cluster/nextid", "").text()] = true
	}
	if len(ids) != 1 {
		t.Errorf("nextid reserves: %v", ids)
	}
	c := r.clock.Join()
	var wg sync.WaitGroup
	var mu sync.Mutex
	var upids []string
	lost := 0
	for i := range 5 {
		wg.Go(func() {
			g := r.do("POST", q+"/200/clone", form("newid", "620", "name", fmt.Sprintf("q%d", i)))
			mu.Lock()
			defer mu.Unlock()
			if g.status == 200 {
				upids = append(upids, g.text())
			} else if lost++; g.reason != "unable to create VM 620: config file already exists" {
				t.Errorf("lost with %s", g.reason)
			}
		})
	}
	wg.Wait()
	won := 0
	for _, u := range upids {
		switch exit := r.wait(c, u); exit {
		case "OK":
			won++
		case "unable to create VM 620: config file already exists", "can't lock file '/var/lock/qemu-server/lock-620.conf' - got timeout":
		default:
			t.Errorf("a task lost with %q", exit)
		}
	}
	c.Leave()
	if won != 1 || lost+len(upids) != 5 {
		t.Errorf("%d won, %d lost at once, %d tasks", won, lost, len(upids))
	}
	if conf := r.config(620); !strings.HasPrefix(fmt.Sprint(conf["name"]), "q") || conf["lock"] != nil {
		t.Errorf("the winner: %v", conf)
	}
	two := newRig(t, Options{Cluster: ThreeNodes()})
	two.must(two.Create("pve2", 300, nil))
	two.must(two.Create("pve1", 301, nil))
	if exit := two.task(two.root, "POST", "/nodes/pve1/qemu/301/clone", "newid=300"); !strings.Contains(exit, "300.conf' failed: File exists") {
		t.Errorf("a number that is taken on another node: %q", exit)
	}
	two.do("POST", "/nodes/pve1/qemu", "vmid=300").want(500, "unable to create VM 300 - VM 300 already exists on node 'pve2'")
}

// TestAKilledWorkerLeavesItsLock: no token can clear it, a pool-scoped one cannot even see it, and its number is burnt.
func TestAKilledWorkerLeavesItsLock(t *testing.T) {
	t.Parallel()
	r := templated(t, Options{})
	tok := r.Scoped("zoomies", "z@pve", "t", "vmbr0", "local")
	r.AddPool("zoomies", 200)
	r.Inject(Fault{Effect: KillWorker, Method: "POST", Path: "/nodes/*/qemu/*/clone"})
	upid := r.as(tok, "POST", q+"/200/clone", "newid=820&pool=zoomies&name=x").want(200, "OK").text()
	if exit := r.ended(upid); exit != unexpected {
		t.Errorf("the task ended with %q", exit)
	}
	if row := r.as(tok, "GET", "/nodes/pve1/tasks/"+upid+"/status", "").row(); row["status"] != "stopped" || row["exitstatus"] != unexpected {
		t.Errorf("its status: %v", row)
	}
	if lock := r.config(820)["lock"]; lock != "clone" {
		t.Errorf("lock is %v", lock)
	}
	r.want("VM is locked (clone)", "POST", q+"/820/status/start", "")
	r.want("VM is locked (clone)", "DELETE", q+"/820", "")
	r.do("DELETE", q+"/820?skiplock=1", "").want(400, "Parameter verification failed.")
	r.do("PUT", q+"/820/config", "delete=lock").want(500, "only root can set 'lock' config")
	r.as(tok, "GET", q+"/820/config", "").want(403, "Permission check failed (/vms/820, VM.Audit)")
	r.as(tok, "POST", q+"/200/clone", "newid=820&pool=zoomies").want(500, "unable to create VM 820: config file already exists")
	r.must(r.Unset(820, "lock"))
	r.want("OK", "DELETE", q+"/820", "")
}

// TestAStoppedCloneLeavesNothing: DELETE of its task takes the machine and the disk away.
func TestAStoppedCloneLeavesNothing(t *testing.T) {
	t.Parallel()
	r := templated(t, Options{})
	c := r.clock.Join()
	defer c.Leave()
	upid := r.do("POST", q+"/200/clone", "newid=640&full=1").text()
	_ = c.Sleep(t.Context(), time.Second)
	r.do("DELETE", "/nodes/pve1/tasks/"+upid, "").want(200, "OK")
	if exit := r.wait(c, upid); !strings.HasPrefix(exit, "clone failed: copy failed: command '") || !strings.HasSuffix(exit, "failed: interrupted by signal") {
		t.Errorf("ended with %q", exit)
	}
	r.do("GET", q+"/640/config", "").want(500, "Configuration file 'nodes/pve1/qemu-server/640.conf' does not exist")
	if vols := r.Volumes("pve1", "local"); len(vols) != 1 {
		t.Errorf("volumes: %v", vols)
	}
	r.do("DELETE", "/nodes/pve1/tasks/"+upid, "").want(200, "OK")
}
