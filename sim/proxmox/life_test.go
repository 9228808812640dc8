package proxmox

import "testing"

// TestAMachinesLifeWithAScopedToken is the life that proxmox-facts shows: with the three grants and nothing else.
func TestAMachinesLifeWithAScopedToken(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"8.3", "8.4", "9.1", "9.2"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Options{Version: version})
			tok := r.Scoped("zoomies", "zoomies@pve", "zt", "vmbr0", "local")
			ok := func(exit string) {
				t.Helper()
				if exit != "OK" {
					t.Fatalf("task ended with %q", exit)
				}
			}
			const q = "/nodes/pve1/qemu"
			ok(r.ended(r.upload(tok, "pve1", "local", "zapp.qcow2", []byte("image"), "content", "import").want(200, "OK").text()))
			ok(r.ended(r.upload(tok, "pve1", "local", "seed.iso", []byte("drive"), "content", "iso").want(200, "OK").text()))
			ok(r.task(tok, "POST", q, form("vmid", "9100", "pool", "zoomies", "name", "tmpl", "memory", "1024", "cores", "1", "scsihw", "virtio-scsi-single",
				"scsi0", "local:0,import-from=local:import/zapp.qcow2,format=qcow2", "net0", "virtio,bridge=vmbr0", "ostype", "l26", "serial0", "socket", "description", "owner")))
			ok(r.task(tok, "POST", q+"/9100/template", ""))
			ok(r.task(tok, "POST", q+"/9100/clone", form("newid", "9101", "name", "zm-1", "description", "owner:abc", "pool", "zoomies")))
			r.as(tok, "PUT", q+"/9101/config", form("ide2", "local:iso/seed.iso,media=cdrom", "boot", "order=scsi0", "tags", "zoomies", "cores", "2", "memory", "2048")).want(200, "OK")
			ok(r.task(tok, "PUT", q+"/9101/resize", form("disk", "scsi0", "size", "+1G")))
			ok(r.task(tok, "POST", q+"/9101/status/start", ""))
			if got := r.as(tok, "GET", q+"/9101/status/current", "").want(200, "OK").row()["status"]; got != "running" {
				t.Errorf("the machine is %v after its start", got)
			}
			ok(r.task(tok, "POST", q+"/9101/status/stop", ""))
			r.as(tok, "PUT", q+"/9101/config", form("delete", "ide2")).want(200, "OK")
			ok(r.task(tok, "DELETE", q+"/9101", ""))
			r.as(tok, "GET", q+"/9101/config", "").want(403, "Permission check failed (/vms/9101, VM.Audit)")
			r.as(tok, "DELETE", "/nodes/pve1/storage/local/content/local:iso/seed.iso", "").want(403, "Permission check failed (/storage/local, Datastore.Allocate)")
			if len(r.Trespasses()) != 0 {
				t.Error("a foreign machine was touched")
			}
		})
	}
}
