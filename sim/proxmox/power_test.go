package proxmox

import (
	"slices"
	"testing"
	"time"
)

// TestStartsThatFail are the words of a start's task.
func TestStartsThatFail(t *testing.T) {
	t.Parallel()
	r := templated(t, Options{})
	r.must(r.Put("pve1", "local:iso/seed.iso", []byte("x")))
	r.want("Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist", "POST", q+"/999/status/start", "")
	r.want("you can't start a vm if it's a template", "POST", q+"/200/status/start", "")
	r.want("OK", "POST", q, form("vmid", "204", "scsi0", "local:1", "ide2", "local:iso/seed.iso,media=cdrom"))
	r.Remove("pve1", "local:iso/seed.iso")
	r.want("volume 'local:iso/seed.iso' does not exist", "POST", q+"/204/status/start", "")
	r.do("PUT", q+"/204/config", "delete=ide2").want(200, "OK")
	r.must(r.Set(204, "lock", "backup"))
	r.want("VM is locked (backup)", "POST", q+"/204/status/start", "")
	r.want("OK", "POST", q+"/204/status/stop", "")
	r.want("VM is locked (backup)", "DELETE", q+"/204", "")
	r.must(r.Unset(204, "lock"))
	r.want("OK", "POST", q+"/204/status/start", "")
	r.want("VM 204 already running", "POST", q+"/204/status/start", "")
	r.do("DELETE", q+"/204", "").want(500, "VM 204 is running - destroy failed")
	r.want("unable to find configuration file for VM 999 on node 'pve1'", "POST", q+"/999/status/stop", "")
	// a failed start does not fail the creation, and has a task of its own
	r.want("OK", "POST", q, form("vmid", "830", "start", "1", "net0", "virtio,bridge=vmbr9"))
	for range 100 {
		if r.Running() == 0 {
			break
		}
		_ = r.clock.Sleep(t.Context(), time.Second)
	}
	rows := r.do("GET", "/nodes/pve1/tasks?vmid=830&typefilter=qmstart", "").rows()
	if len(rows) != 1 || rows[0]["status"] != "bridge 'vmbr9' does not exist" {
		t.Errorf("the autostart: %v", rows)
	}
}

// TestShutdown: a guest that does not listen times out, unless force is asked for; one that is off is fine.
func TestShutdown(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Driver: NullDriver{Deaf: true}})
	r.must(r.Create("pve1", 200, nil))
	r.want("OK", "POST", q+"/200/status/shutdown", "")
	r.want("OK", "POST", q+"/200/status/start", "")
	before := r.clock.Now()
	r.want("VM quit/powerdown failed - got timeout", "POST", q+"/200/status/shutdown", "timeout=30")
	if took := r.clock.Now().Sub(before); took < 30*time.Second {
		t.Errorf("gave up after %v", took)
	}
	r.want("OK", "POST", q+"/200/status/suspend", "")
	if row := r.do("GET", q+"/200/status/current", "").row(); row["status"] != "running" || row["qmpstatus"] != "paused" {
		t.Errorf("paused: %v", row)
	}
	r.want("OK", "POST", q+"/200/status/shutdown", "timeout=2&forceStop=1")
	r.do("POST", q+"/200/status/reset", "").want(500, "VM 200 not running")
}

// TestAGuestThatPowersItselfOff is stopped, and there is no task that says so.
func TestAGuestThatPowersItselfOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.must(r.Create("pve1", 200, nil))
	r.must(r.Start(200))
	tasks := len(r.do("GET", "/nodes/pve1/tasks?source=all", "").rows())
	r.Server.mu.Lock()
	g := r.vms[200].guest
	r.Server.mu.Unlock()
	g.Kill()
	for {
		ch := r.Changed()
		if m, _ := r.Machine(200); !m.Running {
			break
		}
		<-ch
	}
	if got := r.do("GET", q+"/200/status/current", "").row()["status"]; got != "stopped" {
		t.Errorf("it is %v", got)
	}
	if n := len(r.do("GET", "/nodes/pve1/tasks?source=all", "").rows()); n != tasks {
		t.Errorf("there are %d tasks more", n-tasks)
	}
}

// TestDeletes: parallel ones, a template that is stood on, a foreign volume, HA, and disks that stay behind.
func TestDeletes(t *testing.T) {
	t.Parallel()
	r := templated(t, Options{})
	r.want("OK", "POST", q+"/200/clone", "newid=630")
	r.want("base volume 'local:200/base-200-disk-0.qcow2' is still in use by linked cloned", "DELETE", q+"/200", "")
	var exits []string
	c := r.clock.Join()
	var upids []string
	for range 4 {
		upids = append(upids, r.do("DELETE", q+"/630", "").want(200, "OK").text())
	}
	for _, u := range upids {
		exits = append(exits, r.wait(c, u))
	}
	c.Leave()
	slices.Sort(exits)
	gone := "Configuration file 'nodes/pve1/qemu-server/630.conf' does not exist"
	if !slices.Equal(exits, []string{gone, gone, gone, "OK"}) {
		t.Errorf("four deletes ended with %q", exits)
	}
	r.must(r.Put("pve1", "local:iso/seed.iso", []byte("x")))
	r.want("OK", "POST", q, form("vmid", "300", "scsi0", "local:1", "ide2", "local:iso/seed.iso,media=cdrom"))
	r.must(r.SetHA(300, true))
	r.do("DELETE", q+"/300", "").want(500, "unable to remove VM 300 - used in HA resources and purge parameter not set.")
	r.SetActive("pve1", "local", false)
	r.want("WARNINGS: 1", "DELETE", q+"/300?purge=1", "")
	if vols := r.Volumes("pve1", "local"); !slices.Contains(vols, "local:300/vm-300-disk-0.raw") || !slices.Contains(vols, "local:iso/seed.iso") {
		t.Errorf("left are %v", vols)
	}
	// destroy-unreferenced-disks takes what wears the number, whoever's it is
	r.SetActive("pve1", "local", true)
	r.must(r.Create("pve1", 300, nil))
	r.want("OK", "DELETE", q+"/300?destroy-unreferenced-disks=1", "")
	if vols := r.Volumes("pve1", "local"); slices.Contains(vols, "local:300/vm-300-disk-0.raw") {
		t.Errorf("left are %v", vols)
	}
}

// TestHAManaged: power goes through the HA manager, under another task's name.
func TestHAManaged(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.must(r.Create("pve1", 200, nil))
	r.must(r.SetHA(200, true))
	upid := r.do("POST", q+"/200/status/start", "").text()
	if u, _ := ParseUPID(upid); u.Kind != "hastart" {
		t.Errorf("the task is %s", upid)
	}
	r.ended(upid)
	for {
		ch := r.Changed()
		if m, _ := r.Machine(200); m.Running {
			break
		}
		<-ch
	}
	if ha := r.do("GET", q+"/200/status/current", "").row()["ha"].(map[string]any); ha["managed"] != 1.0 {
		t.Errorf("ha: %v", ha)
	}
}

// TestTheClustersListLags is the table of moments: the list is late, its own node's is not.
func TestTheClustersListLags(t *testing.T) {
	t.Parallel()
	r := templated(t, Options{})
	c := r.clock.Join()
	defer c.Leave()
	row := func() map[string]any {
		for _, x := range r.do("GET", "/cluster/resources?type=vm", "").rows() {
			if x["vmid"] == 700.0 {
				return x
			}
		}
		return nil
	}
	tick := func(plus time.Duration) {
		r.Server.mu.Lock()
		since := r.Server.clock.Now().Sub(r.tick("pve1"))
		r.Server.mu.Unlock()
		_ = c.Sleep(t.Context(), statInterval-since+plus)
	}
	tick(0)
	r.wait(c, r.do("POST", q+"/200/clone", "newid=700&name=lag").text())
	if x := row(); x["status"] != "unknown" || x["name"] != nil || x["tags"] != "a;b" || x["lock"] != nil {
		t.Errorf("after the clone: %v", x)
	}
	if x := r.do("GET", q+"/700/status/current", "").row(); x["status"] != "stopped" || x["name"] != "lag" {
		t.Errorf("its node says %v", x)
	}
	tick(0)
	if x := row(); x["status"] != "stopped" || x["name"] != "lag" || x["template"] != 0.0 {
		t.Errorf("after ten seconds: %v", x)
	}
	r.wait(c, r.do("POST", q+"/700/status/start", "").text())
	if x := row(); x["status"] != "stopped" {
		t.Errorf("after the start: %v", x)
	}
	tick(0)
	if x := row(); x["status"] != "running" {
		t.Errorf("ten seconds after the start: %v", x)
	}
	r.wait(c, r.do("POST", q+"/700/status/stop", "").text())
	if x := row(); x["status"] != "running" {
		t.Errorf("after the stop: %v", x)
	}
	r.wait(c, r.do("DELETE", q+"/700", "").text())
	if x := row(); x != nil {
		t.Errorf("after the delete: %v", x)
	}
}
