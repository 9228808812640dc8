package proxmox

import (
	"fmt"
	"slices"
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

// TestConfigTextIsKeptAsProxmoxDoes: tags, descriptions, disks and sizes come back changed.
func TestConfigTextIsKeptAsProxmoxDoes(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.must(r.Put("pve1", "local:iso/seed.iso", make([]byte, 358400)))
	r.want("OK", "POST", q, "vmid=200&scsi0=local:1&name=x")
	for _, tt := range []struct {
		name, set, key string
		want           any
		file           string
	}{
		{"tags are sorted and lower-cased", form("tags", "Alpha;beta,GAMMA beta"), "tags", "alpha;beta;gamma", "tags: alpha;beta;gamma\n"},
		{"empty tags are one space", form("tags", ""), "tags", " ", "tags:  \n"},
		{"tags are deleted", "delete=tags", "tags", nil, ""},
		{"descriptions are escaped in the file only", form("description", "Line one\nlücky: 50% & #hash"), "description", "Line one\nlücky: 50% & #hash",
			"#Line one\n#l%C3%BCcky%3A 50%25 & #hash\n"},
		{"a last newline is dropped", form("description", "a\n\nb\n"), "description", "a\n\nb", "#a\n#\n#b\n"},
		{"leading blanks survive", form("description", "  lead"), "description", "  lead", ""},
		{"an empty description removes it", form("description", ""), "description", nil, ""},
		{"a CD-ROM gets its size", form("ide2", "local:iso/seed.iso,media=cdrom"), "ide2", "local:iso/seed.iso,media=cdrom,size=350K", ""},
		{"numbers of the text kind stay text", "memory=1024", "memory", "1024", ""},
		{"numbers are numbers", "cores=2", "cores", 2.0, ""},
		{"a disk that is taken away is unused", "delete=scsi0", "unused0", "local:200/vm-200-disk-0.raw", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.do("PUT", q+"/200/config", tt.set).want(200, "OK")
			if got := r.config(200)[tt.key]; got != tt.want {
				t.Errorf("%s is %#v, want %#v", tt.key, got, tt.want)
			}
			if m, _ := r.Machine(200); !strings.Contains(m.File, tt.file) {
				t.Errorf("the file:\n%s", m.File)
			}
		})
	}
}

// TestConfigRefusals are the words for what cannot be set.
func TestConfigRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.must(r.Create("pve1", 200, nil))
	for _, tt := range []struct {
		form, reason, key, text string
	}{
		{form("description", strings.Repeat("x", 8193)), "", "description", "value may only be 8192 characters long"},
		{form("tags", "has space!"), "", "tags", "invalid format - invalid characters in tag\n"},
		{"delete=nosuchopt", "", "delete", "unknown option 'nosuchopt'"},
		{"skiplock=1&memory=16", "", "skiplock", "Only root may use this option."},
		{"memory=10", "", "memory", "invalid format - format error\nmemory.current: value must have a minimum value of 16\n"},
		{"nosuch=1", "", "nosuch", notInSchema},
		{"memory=100&memory=200", "", "memory", "type check ('string') failed - got ARRAY"},
		{"vmid=300", "", "vmid", "duplicate parameter (already defined in URI) with conflicting values!"},
		{"net0=virtio,bridge=vmbr0,nosuch=1", "", "net0", "invalid format - format error\nnet0.nosuch: " + notInSchema + "\n"},
		{"agent=fstrim_cloned_disks%3D1", "", "agent", "invalid format - format error\nagent.enabled: property is missing and it is not optional\n"},
		{"", "no options specified", "", ""},
		{"args=-x", "only root can set 'args' config", "", ""},
		{"lock=backup", "only root can set 'lock' config", "", ""},
		{"serial0=/dev/null", "only root can modify 'serial0' config for real devices", "", ""},
		{"name=x&digest=" + strings.Repeat("0", 40), "checksum mismatch (file change by other user?)", "", ""},
		{form("ide2", "local:iso/no.iso,media=cdrom"), "volume 'local:iso/no.iso' does not exist", "", ""},
	} {
		t.Run(tt.form, func(t *testing.T) {
			g := r.send(r.root, "PUT", q+"/200/config", "application/x-www-form-urlencoded", strings.NewReader(tt.form))
			if tt.key == "" {
				g.want(500, tt.reason)
				return
			}
			g.want(400, "Parameter verification failed.")
			if got := g.field(tt.key); got != tt.text {
				t.Errorf("%s: %q, want %q", tt.key, got, tt.text)
			}
		})
	}
}

// TestPendingChanges: a running machine takes only what it can; a CD-ROM can be emptied but not unplugged.
func TestPendingChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.must(r.Put("pve1", "local:iso/seed.iso", []byte("x")))
	r.want("OK", "POST", q, form("vmid", "200", "memory", "512", "scsi0", "local:1", "ide2", "local:iso/seed.iso,media=cdrom"))
	r.want("OK", "POST", q+"/200/status/start", "")
	r.do("PUT", q+"/200/config", "memory=1024&name=now&delete=ide2").want(200, "OK")
	shown, current := r.config(200), r.do("GET", q+"/200/config?current=1", "").row()
	if shown["memory"] != "1024" || current["memory"] != "512" || shown["ide2"] != nil || current["ide2"] == nil || current["name"] != "now" {
		t.Errorf("shown %v, current %v", shown, current)
	}
	r.do("PUT", q+"/200/config", form("ide2", "none,media=cdrom")).want(200, "OK")
	if got := r.do("GET", q+"/200/config?current=1", "").row()["ide2"]; got != "none,media=cdrom" {
		t.Errorf("the emptied CD-ROM is %v", got)
	}
	r.want("OK", "POST", q+"/200/status/stop", "")
	r.want("OK", "POST", q+"/200/status/start", "")
	if got := r.do("GET", q+"/200/config?current=1", "").row()["memory"]; got != "1024" {
		t.Errorf("memory after the next start is %v", got)
	}
}

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
