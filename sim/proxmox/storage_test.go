package proxmox

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"mime/multipart"
	"strings"
	"testing"
)

// TestUploads: names are changed silently, files overwritten silently, and what is refused is left in /var/tmp.
func TestUploads(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("data"))
	good, bad := hex.EncodeToString(sum[:]), strings.Repeat("0", 64)
	for _, tt := range []struct {
		name, file string
		fields     []string
		status     int
		field, why string
		exit       string
		volume     string
		left       int
	}{
		{"an ISO", "a.iso", []string{"content", "iso"}, 200, "", "", "OK", "local:iso/a.iso", 0},
		{"an image as ISO", "x.img", []string{"content", "iso"}, 200, "", "", "OK", "local:iso/x.img", 0},
		{"an import", "x.qcow2", []string{"content", "import"}, 200, "", "", "OK", "local:import/x.qcow2", 0},
		{"bad letters", "bad name!.iso", []string{"content", "iso"}, 200, "", "", "OK", "local:iso/bad_name_.iso", 0},
		{"right checksum", "c.iso", []string{"content", "iso", "checksum", good, "checksum-algorithm", "sha256"}, 200, "", "", "OK", "local:iso/c.iso", 0},
		{"wrong checksum", "c.iso", []string{"content", "iso", "checksum", bad, "checksum-algorithm", "sha256"}, 200, "", "",
			"checksum mismatch: got '" + good + "' != expect '" + bad + "'", "", 0},
		{"no extension", "x", []string{"content", "iso"}, 400, "filename", "wrong file extension", "", "", 1},
		{"snippets", "x.yml", []string{"content", "snippets"}, 400, "content", "value 'snippets' does not have a value in the enumeration 'iso, vztmpl, import'", "", "", 1},
		{"no content", "a.iso", nil, 400, "content", "property is missing and it is not optional", "", "", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Options{})
			g := r.upload(r.root, "pve1", "local", tt.file, []byte("data"), tt.fields...)
			if g.status != tt.status {
				t.Fatalf("answered %d %s %s", g.status, g.reason, g.body)
			}
			if tt.status == 200 {
				if u, ok := ParseUPID(g.text()); !ok || u.Kind != "imgcopy" || u.ID != "" {
					t.Errorf("the task is %s", g.text())
				}
				if exit := r.ended(g.text()); exit != tt.exit {
					t.Errorf("ended with %q", exit)
				}
			} else if got := g.field(tt.field); got != tt.why {
				t.Errorf("%s: %q", tt.field, got)
			}
			if vols := strings.Join(r.Volumes("pve1", "local"), " "); vols != tt.volume {
				t.Errorf("volumes: %s", vols)
			}
			if n := len(r.Leftovers("pve1")); n != tt.left {
				t.Errorf("%d files are left in /var/tmp, want %d", n, tt.left)
			}
		})
	}
}

// TestFieldsAfterTheFileAreNotSeen protects clients that write them in the wrong order.
func TestFieldsAfterTheFileAreNotSeen(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	f, _ := w.CreateFormFile("filename", "a.iso")
	_, _ = f.Write([]byte("x"))
	_ = w.WriteField("content", "iso")
	_ = w.Close()
	g := r.send(r.root, "POST", "/nodes/pve1/storage/local/upload", w.FormDataContentType(), &b)
	if g.status != 400 || g.field("content") != "property is missing and it is not optional" {
		t.Errorf("answered %d %s", g.status, g.body)
	}
}

// TestUploadsOverwriteAndSpool: the last one wins; a full /var/tmp refuses; a cut one leaves nothing; who may not is told without a body.
func TestUploadsOverwriteAndSpool(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	for _, text := range []string{"secret", ""} {
		if exit := r.ended(r.upload(r.root, "pve1", "local", "a.iso", []byte(text), "content", "iso").text()); exit != "OK" {
			t.Fatalf("ended with %q", exit)
		}
		if got, ok := r.Content("pve1", "local:iso/a.iso"); !ok || string(got) != text {
			t.Errorf("content is %q", got)
		}
	}
	r.Inject(Fault{Effect: CutUpload, Path: "/nodes/*/storage/*/upload", Bytes: 700})
	if g := r.upload(r.root, "pve1", "local", "b.iso", make([]byte, 1<<20), "content", "iso"); g.status != 0 {
		t.Errorf("a cut upload is answered %d", g.status)
	}
	if left, vols := r.Leftovers("pve1"), r.Volumes("pve1", "local"); len(left) != 0 || len(vols) != 1 {
		t.Errorf("a cut upload left %v, %v", left, vols)
	}
	r.SetSpool("pve1", 100)
	r.upload(r.root, "pve1", "local", "b.iso", make([]byte, 1<<20), "content", "iso").want(500, "No space left on device")
	if left := r.Leftovers("pve1"); len(left) != 1 {
		t.Errorf("left is %v", left)
	}
	nobody := r.AddToken("ci@pve", "a", true)
	if g := r.upload(nobody, "pve1", "local", "a.iso", []byte("x"), "content", "iso").want(403, "Permission check failed (/storage/local, Datastore.AllocateTemplate)"); len(g.body) > 0 {
		t.Errorf("body: %s", g.body)
	}
}

// TestUploadsForAnotherNode are received, and copied, by the node that was asked.
func TestUploadsForAnotherNode(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Cluster: ThreeNodes()})
	upid := r.upload(r.root, "pve2", "local", "a.iso", []byte("x"), "content", "iso").want(200, "OK").text()
	if u, _ := ParseUPID(upid); u.Node != "pve1" {
		t.Errorf("the task is on %s", u.Node)
	}
	r.ended(upid)
	if len(r.Volumes("pve1", "local")) != 0 || len(r.Volumes("pve2", "local")) != 1 {
		t.Error("the file is on the wrong node")
	}
	r.ended(r.upload(r.root, "pve2", "shared", "a.iso", []byte("x"), "content", "iso").text())
	if len(r.Volumes("pve3", "shared")) != 1 {
		t.Error("a shared storage does not show the file on every node")
	}
}

// TestLinkedClonesNeedTheRightStorage: which storages can link, and what their volumes are called.
func TestLinkedClonesNeedTheRightStorage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ storage, volume, refused string }{
		{"local-lvm", "local-lvm:vm-201-disk-0", ""},
		{"tank", "tank:base-200-disk-0/vm-201-disk-0", ""},
		{"shared", "shared:200/base-200-disk-0.raw/201/vm-201-disk-0.qcow2", ""},
		{"thick", "", "volume 'thick:vm-200-disk-0' does not support template/clone"},
	} {
		t.Run(tt.storage, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Options{Cluster: ThreeNodes()})
			r.want("OK", "POST", q, form("vmid", "200", "scsi0", tt.storage+":1"))
			if tt.refused != "" {
				r.want(tt.refused, "POST", q+"/200/template", "")
				r.do("POST", q+"/200/clone", "newid=201&full=0").want(500, "Linked clone feature is not supported for 'thick:vm-200-disk-0' (scsi0)")
				return
			}
			r.want("OK", "POST", q+"/200/template", "")
			r.want("OK", "POST", q+"/200/clone", "newid=201")
			if got := r.config(201)["scsi0"]; got != tt.volume+",size=1G" {
				t.Errorf("scsi0 is %v", got)
			}
		})
	}
}

// TestCloneAcrossNodes: only what is shared can go to another node.
func TestCloneAcrossNodes(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Cluster: ThreeNodes()})
	r.want("OK", "POST", q, "vmid=200&scsi0=local-lvm:1")
	r.want("OK", "POST", q, "vmid=210&scsi0=shared:1")
	r.do("POST", q+"/200/clone", "newid=201&target=pve2").want(500, "can't clone VM to node 'pve2' (VM uses local storage)")
	r.do("POST", q+"/200/clone", "newid=201&full=1&target=pve2&storage=thick").want(500, "can't clone to non-shared storage 'thick'")
	r.do("POST", q+"/200/clone", "newid=201&target=nosuch").want(500, "no such cluster node 'nosuch'")
	r.want("OK", "POST", q+"/210/clone", "newid=211&target=pve2")
	if m, ok := r.Machine(211); !ok || m.Node != "pve2" {
		t.Errorf("the clone: %v", m)
	}
	r.do("POST", "/nodes/pve3/qemu", "vmid=300&scsi0=tank:1").want(200, "OK")
}

// TestAFullStorage: a full clone says only that a command failed, and leaves nothing.
func TestAFullStorage(t *testing.T) {
	t.Parallel()
	r := templated(t, Options{})
	r.Inject(Fault{Effect: FillStorage, Path: "/nodes/*/qemu/*/clone", Times: 2})
	upid := r.do("POST", q+"/200/clone", "newid=201&full=1").text()
	if exit := r.ended(upid); !strings.HasPrefix(exit, "clone failed: copy failed: command '") || !strings.HasSuffix(exit, "failed: exit code 1") {
		t.Errorf("ended with %q", exit)
	}
	if log := fmt.Sprint(r.do("GET", "/nodes/pve1/tasks/"+upid+"/log", "").rows()); !strings.Contains(log, "No space left on device") {
		t.Errorf("log: %s", log)
	}
	r.want("clone failed: No space left on device", "POST", q+"/200/clone", "newid=201")
	if _, ok := r.Machine(201); ok || len(r.Volumes("pve1", "local")) != 1 {
		t.Errorf("left: %v", r.Volumes("pve1", "local"))
	}
	r.Fill("pve1", "local", 10<<10)
	r.want("clone failed: unable to create image: No space left on device", "POST", q+"/200/clone", "newid=201")
}

// TestCreatesThatFail leave no machine behind.
func TestCreatesThatFail(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Cluster: ThreeNodes()})
	r.do("POST", q, "vmid=100&scsi0=nosuch:4").want(500, "storage 'nosuch' does not exist")
	r.do("POST", q, "vmid=100&scsi0=local:4").want(400, "Parameter verification failed.")
	for _, tt := range []struct{ opt, val, exit string }{
		{"ide2", "local:iso/nosuch.iso,media=cdrom", "volume 'local:iso/nosuch.iso' does not exist"},
		{"scsi0", "shared:99999999", "unable to create image: qemu-img: The image size is too large for file format 'raw'"},
		{"scsi0", "thick:9999", "unable to create image: No space left on device"},
		{"scsi0", "shared:0,import-from=local:import/no.qcow2", "volume 'local:import/no.qcow2' does not exist"},
	} {
		r.want("unable to create VM 100 - "+tt.exit, "POST", q, form("vmid", "100", "virtio0", "shared:1", tt.opt, tt.val))
	}
	if _, ok := r.Machine(100); ok || len(r.Volumes("pve1", "shared")) != 0 {
		t.Errorf("left: %v", r.Volumes("pve1", "shared"))
	}
}

// TestAnImportKnowsItsImage: the disk of a machine goes back to the file that it was made from, and remembers whether it was booted.
func TestAnImportKnowsItsImage(t *testing.T) {
	t.Parallel()
	d := &recorder{}
	r := newRig(t, Options{Driver: d, Dir: t.TempDir()})
	header := append([]byte("QFI\xfb\x00\x00\x00\x03"), make([]byte, 100)...)
	header[28] = 0x40 // 1 GiB
	sum := sha256.Sum256(header)
	r.must(r.Put("pve1", "local:import/i.qcow2", header))
	r.must(r.Put("pve1", "local:iso/s.iso", []byte("drive")))
	r.want("OK", "POST", q, form("vmid", "200", "scsi0", "local:0,import-from=local:import/i.qcow2,format=qcow2", "net0", "virtio,bridge=vmbr0"))
	r.want("OK", "POST", q+"/200/template", "")
	r.want("OK", "POST", q+"/200/clone", "newid=201")
	r.do("PUT", q+"/201/config", form("ide2", "local:iso/s.iso,media=cdrom", "cores", "2", "memory", "2048")).want(200, "OK")
	r.want("OK", "POST", q+"/201/status/start", "")
	r.want("OK", "POST", q+"/201/status/stop", "")
	r.want("OK", "POST", q+"/201/status/start", "")
	first, second := d.seen[0], d.seen[1]
	if string(first.ISO) != "drive" || first.Cores != 2 || first.MemoryMB != 2048 || len(first.MACs) != 1 || first.UUID == "" {
		t.Errorf("the hardware: %+v", first)
	}
	if first.Disk.Image != hex.EncodeToString(sum[:]) || first.Disk.ImageFile == "" || first.Disk.Bytes != 1<<30 || !first.Disk.Fresh || second.Disk.Fresh {
		t.Errorf("the disk: %+v, then %+v", first.Disk, second.Disk)
	}
}

// TestContentPrivileges: an ISO that is attached can be deleted, with the one privilege that deletes; a missing one is no error.
func TestContentPrivileges(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	tok := r.Scoped("z", "z@pve", "t", "vmbr0", "local")
	r.must(r.Put("pve1", "local:iso/a.iso", []byte("abc")))
	r.want("OK", "POST", q, form("vmid", "200", "ide2", "local:iso/a.iso,media=cdrom"))
	const vol = "/nodes/pve1/storage/local/content/local:iso/a.iso"
	if row := r.as(tok, "GET", vol, "").row(); row["size"] != 3.0 {
		t.Errorf("the volume: %v", row)
	}
	r.as(tok, "DELETE", vol, "").want(403, "Permission check failed (/storage/local, Datastore.Allocate)")
	r.want("OK", "DELETE", vol, "")
	r.want("OK", "DELETE", vol, "")
	r.do("GET", vol, "").want(500, "volume_size_info on 'local:iso/a.iso' failed - no format")
}
