package proxmox

import (
	"slices"
	"strings"
	"testing"
)

// lifePrivileges are all that any of the calls of a machine's life needs.
var lifePrivileges = strings.Fields(`VM.Allocate VM.Clone VM.Audit VM.Config.CDROM VM.Config.CPU VM.Config.Memory VM.Config.Disk VM.Config.HWType
	VM.Config.Network VM.Config.Options VM.PowerMgmt Datastore.AllocateSpace Datastore.AllocateTemplate Datastore.Allocate SDN.Use Datastore.Audit Pool.Audit Sys.Audit`)

// TestWhichPrivilegeEachCallNeeds takes one privilege at a time from a token that has all of them on /.
func TestWhichPrivilegeEachCallNeeds(t *testing.T) {
	t.Parallel()
	calls := map[string]struct{ method, path, form string }{
		"create":      {"POST", q, "vmid=900&memory=64&cores=1&scsi0=local:1&net0=virtio%2Cbridge%3Dvmbr0&ide2=local%3Aiso%2Fs.iso%2Cmedia%3Dcdrom&name=c"},
		"clone":       {"POST", q + "/200/clone", "newid=901"},
		"delete":      {"DELETE", q + "/300", ""},
		"config":      {"GET", q + "/301/config", ""},
		"status":      {"GET", q + "/301/status/current", ""},
		"ide2":        {"PUT", q + "/301/config", "ide2=local%3Aiso%2Fs.iso%2Cmedia%3Dcdrom"},
		"cores":       {"PUT", q + "/301/config", "cores=2"},
		"memory":      {"PUT", q + "/301/config", "memory=65"},
		"boot":        {"PUT", q + "/301/config", "boot=order%3Dscsi0"},
		"resize":      {"PUT", q + "/301/resize", "disk=scsi0&size=%2B1G"},
		"serial0":     {"PUT", q + "/301/config", "serial0=socket"},
		"smbios1":     {"PUT", q + "/301/config", "smbios1=serial%3DZHM%3D%2Cbase64%3D1"},
		"net0":        {"PUT", q + "/301/config", "net0=virtio%2Cbridge%3Dvmbr0"},
		"name":        {"PUT", q + "/301/config", "name=z"},
		"description": {"PUT", q + "/301/config", "description=z"},
		"tags":        {"PUT", q + "/301/config", "tags=z"},
		"agent":       {"PUT", q + "/301/config", "agent=1"},
		"onboot":      {"PUT", q + "/301/config", "onboot=0"},
		"start":       {"POST", q + "/302/status/start", ""},
		"stop":        {"POST", q + "/302/status/stop", ""},
		"deliso":      {"DELETE", "/nodes/pve1/storage/local/content/local:iso/none.iso", ""},
	}
	for removed, fails := range map[string]string{
		"VM.Allocate": "create clone delete", "VM.Clone": "clone", "VM.Audit": "config status", "VM.Config.CDROM": "ide2", "VM.Config.CPU": "cores create",
		"VM.Config.Memory": "memory create", "VM.Config.Disk": "boot resize", "VM.Config.HWType": "serial0 smbios1", "VM.Config.Network": "net0 create",
		"VM.Config.Options": "name description tags agent onboot create", "VM.PowerMgmt": "start stop", "Datastore.AllocateSpace": "create clone",
		"Datastore.AllocateTemplate": "upload", "Datastore.Allocate": "deliso", "SDN.Use": "create clone net0", "Datastore.Audit": "", "Pool.Audit": "", "Sys.Audit": "",
	} {
		t.Run(removed, func(t *testing.T) {
			t.Parallel()
			r := templated(t, Options{})
			r.must(r.Put("pve1", "local:iso/s.iso", []byte("x")))
			for _, id := range []string{"300", "301", "302"} {
				r.want("OK", "POST", q+"/200/clone", "newid="+id)
			}
			tok := r.AddToken("ci@pve", "a", true)
			r.AddRole("All", lifePrivileges...)
			r.AddRole("Less", slices.DeleteFunc(slices.Clone(lifePrivileges), func(p string) bool { return p == removed })...)
			r.Grant("/", "ci@pve", "All")
			r.Grant("/", "ci@pve!a", "Less")
			var failed []string
			for name, c := range calls {
				if g := r.as(tok, c.method, c.path, c.form); g.status == 403 {
					failed = append(failed, name)
				} else if g.status != 200 {
					t.Errorf("%s: %d %s", name, g.status, g.reason)
				}
			}
			if r.upload(tok, "pve1", "local", "u.iso", nil, "content", "iso").status == 403 {
				failed = append(failed, "upload")
			}
			want := strings.Fields(fails)
			slices.Sort(want)
			slices.Sort(failed)
			if !slices.Equal(failed, want) {
				t.Errorf("what fails is %v, want %v", failed, want)
			}
			if removed == "VM.Audit" {
				if rows := r.as(tok, "GET", "/cluster/resources?type=vm", "").want(200, "OK").rows(); len(rows) != 0 {
					t.Errorf("it still sees %v", rows)
				}
			}
		})
	}
}

// TestSeparateTokens have the intersection: both user and token need the grant.
func TestSeparateTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.must(r.Create("pve1", 100, nil))
	separate, full := r.AddToken("ci@pve", "sep", true), r.AddToken("ci@pve", "full", false)
	status := func(tok string) int { return r.as(tok, "GET", q+"/100/config", "").status }
	for _, step := range []struct {
		name string
		do   func()
		sep  int
		full int
	}{
		{"nothing", func() {}, 403, 403},
		{"the user alone", func() { r.Grant("/vms", "ci@pve", "PVEAuditor") }, 403, 200},
		{"both", func() { r.Grant("/vms", "ci@pve!sep", "PVEVMAdmin") }, 200, 200},
		{"the token alone", func() { r.Deny("/vms", "ci@pve") }, 403, 403},
		{"a group", func() { r.AddUser("ci@pve", "ops"); r.Grant("/", "@ops", "PVEAuditor") }, 200, 200},
		{"nearer takes the place of further", func() { r.Grant("/vms/100", "ci@pve", "PVEPoolUser") }, 403, 403},
		{"not handed down", func() { r.Deny("/vms/100", "ci@pve"); r.Deny("/", "@ops"); r.GrantHere("/vms", "ci@pve", "PVEAuditor") }, 403, 403},
		{"exactly there", func() { r.GrantHere("/vms/100", "ci@pve", "PVEAuditor") }, 200, 200},
		{"no access", func() { r.Grant("/vms/100", "ci@pve", noAccess) }, 403, 403},
	} {
		step.do()
		if s, f := status(separate), status(full); s != step.sep || f != step.full {
			t.Errorf("%s: separate %d, full %d", step.name, s, f)
		}
	}
}

// TestPools: rights come with membership and go with it; a pool makes new machines possible; what they say of themselves is right.
func TestPools(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	tok := r.Scoped("zoomies", "z@pve", "t", "vmbr0", "local")
	r.must(r.Create("pve1", 100, nil))
	r.as(tok, "POST", q, "vmid=200").want(403, "Permission check failed")
	r.as(tok, "POST", q, "vmid=200&pool=nosuch").want(403, "Permission check failed (pool 'nosuch' does not exist)")
	if exit := r.task(tok, "POST", q, "vmid=200&pool=zoomies&memory=64"); exit != "OK" {
		t.Fatalf("ended with %q", exit)
	}
	r.as(tok, "GET", q+"/200/config", "").want(200, "OK")
	r.as(tok, "DELETE", q+"/100", "").want(403, "Permission check failed (/vms/100, VM.Allocate)")
	perms := r.as(tok, "GET", "/access/permissions", "").row()
	if perms["/vms/200"] == nil || perms["/pool/zoomies"] == nil || perms["/vms/100"] != nil || perms["/"] != nil {
		t.Errorf("permissions: %v", perms)
	}
	if at := perms["/vms/200"].(map[string]any); at["VM.Clone"] != 0.0 {
		t.Errorf("what comes from a pool is handed down: %v", at)
	}
	r.as(tok, "GET", "/access/permissions?userid=root@pam", "").want(403, "Permission check failed (/access, Sys.Audit)")
	r.as(tok, "GET", "/pools/zoomies", "").want(403, "Permission check failed (/pool/zoomies, Pool.Audit)")
	rows := r.as(tok, "GET", "/pools?poolid=zoomies", "").want(200, "OK").rows()
	if members, ok := rows[0]["members"].([]any); !ok || len(members) != 1 {
		t.Errorf("the pool: %v", rows)
	}
	if exit := r.task(tok, "DELETE", q+"/200", ""); exit != "OK" {
		t.Errorf("ended with %q", exit)
	}
	r.as(tok, "GET", q+"/200/config", "").want(403, "Permission check failed (/vms/200, VM.Audit)")
	r.as(tok, "POST", q+"/200/status/stop", "").want(403, "Permission check failed (/vms/200, VM.PowerMgmt)")
	r.do("DELETE", "/pools/zoomies", "").want(200, "OK")
}

// TestWhoMaySeeLists: lists are empty for who may see nothing, and never refused.
func TestWhoMaySeeLists(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Cluster: ThreeNodes()})
	r.must(r.Create("pve1", 100, nil))
	r.AddPool("p", 100)
	r.want("OK", "POST", q, "vmid=200")
	nobody := r.AddToken("ci@pve", "a", true)
	for _, path := range []string{"/nodes/pve1/qemu", "/nodes/pve1/storage", "/nodes/pve1/network", "/nodes/pve1/tasks", "/cluster/tasks", "/pools", "/storage"} {
		if rows := r.as(nobody, "GET", path, "").want(200, "OK").rows(); len(rows) != 0 {
			t.Errorf("%s shows %v", path, rows)
		}
	}
	for _, row := range r.as(nobody, "GET", "/cluster/resources", "").want(200, "OK").rows() {
		if row["type"] != "node" || row["maxmem"] != nil {
			t.Errorf("the cluster's list shows %v", row)
		}
	}
	r.as(nobody, "GET", "/version", "").want(200, "OK")
	r.as(nobody, "GET", "/cluster/nextid", "").want(200, "OK")
	if perms := r.as(nobody, "GET", "/access/permissions", "").row(); len(perms) != 0 {
		t.Errorf("permissions: %v", perms)
	}
}

// TestTasksOfOthers: one's own need no privilege, others' do.
func TestTasksOfOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	tok := r.Scoped("z", "z@pve", "t", "vmbr0", "local")
	mine := r.as(tok, "POST", q, "vmid=200&pool=z").text()
	r.ended(mine)
	theirs := r.do("POST", q, "vmid=201").text()
	r.ended(theirs)
	at := func(u string) string { return "/nodes/pve1/tasks/" + u }
	row := r.as(tok, "GET", at(mine)+"/status", "").want(200, "OK").row()
	if row["user"] != "z@pve" || row["tokenid"] != "t" || row["exitstatus"] != "OK" || row["upid"] != mine {
		t.Errorf("status: %v", row)
	}
	r.as(tok, "GET", at(strings.NewReplacer(":", "%3A", "@", "%40", "!", "%21").Replace(mine))+"/log", "").want(200, "OK")
	r.as(tok, "DELETE", at(mine), "").want(200, "OK")
	r.as(tok, "GET", at(theirs)+"/status", "").want(403, "Permission check failed (/nodes/pve1, Sys.Audit)")
	r.as(tok, "DELETE", at(theirs), "").want(403, "Permission check failed (/nodes/pve1, Sys.Modify)")
	if rows := r.as(tok, "GET", "/nodes/pve1/tasks", "").rows(); len(rows) != 1 || rows[0]["status"] != "OK" {
		t.Errorf("the list: %v", rows)
	}
	if text := r.do("GET", at("UPID:bad")+"/status", "").field("upid"); text != "unable to parse worker upid" {
		t.Errorf("an unparsable one: %q", text)
	}
	unknown := strings.Replace(theirs, "qmcreate:201", "qmcreate:999", 1)
	if text := r.do("GET", at(unknown)+"/status", "").field("upid"); text != "no such task" {
		t.Errorf("an unknown one: %q", text)
	}
	if rows := r.do("GET", at(unknown)+"/log", "").want(200, "OK").rows(); rows[0]["t"] != "unable to open file - No such file or directory" {
		t.Errorf("the log of an unknown one: %v", rows)
	}
}

// TestGuestAgentPrivileges changed their names in 9.0.
func TestGuestAgentPrivileges(t *testing.T) {
	t.Parallel()
	for version, priv := range map[string]string{"8.3": "VM.Monitor", "8.4": "VM.Monitor", "9.1": "VM.GuestAgent.Audit", "9.2": "VM.GuestAgent.Audit"} {
		r := newRig(t, Options{Version: version})
		r.must(r.Create("pve1", 100, map[string]string{"agent": "1"}))
		tok := r.AddToken("ci@pve", "a", false)
		if g := r.as(tok, "POST", q+"/100/agent/ping", ""); g.status != 403 || !strings.Contains(g.reason, priv) {
			t.Errorf("%s: %d %s", version, g.status, g.reason)
		}
		r.AddRole("G", priv)
		r.Grant("/vms/100", "ci@pve", "G")
		r.as(tok, "POST", q+"/100/agent/ping", "").want(500, "VM 100 is not running")
		r.must(r.Start(100))
		r.as(tok, "POST", q+"/100/agent/ping", "").want(500, "QEMU guest agent is not running")
	}
}
