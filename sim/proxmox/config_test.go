package proxmox

import (
	"strings"
	"testing"
)

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
