package proxmox

import (
	"bytes"
	"encoding/json"
	"mime/multipart"
	"net/url"
	"strings"
	"testing"
)

// FuzzUPID: what parses is written the same way again.
func FuzzUPID(f *testing.F) {
	f.Add("UPID:pve1:000000C9:000755F5:6B0D501B:imgcopy::root@pam!full:")
	f.Add("UPID:bad")
	f.Add("UPID:a:00000000:1234567890:00000000:x:y:z:")
	f.Fuzz(func(t *testing.T, text string) {
		u, ok := ParseUPID(text)
		if !ok {
			return
		}
		if again, ok := ParseUPID(u.String()); !ok || again != u {
			t.Errorf("%q is %+v, and again %+v", text, u, again)
		}
	})
}

// FuzzForm: every form is either refused or read as the standard library reads it, as far as keys that come once go.
func FuzzForm(f *testing.F) {
	f.Add("a=b&c=%20d&e=f+g")
	f.Add("a&=&&a=1")
	f.Add("%zz")
	f.Fuzz(func(t *testing.T, text string) {
		out := map[string]value{}
		if parseForm(out, text) != nil {
			return
		}
		want, err := url.ParseQuery(text)
		if err != nil { // it refuses semicolons too
			return
		}
		for k, v := range want {
			if len(v) == 1 && out[k] != (value{text: v[0]}) || len(v) > 1 && !out[k].list {
				t.Errorf("%q: %q is %+v, want %q", text, k, out[k], v)
			}
		}
	})
}

// FuzzJSON: whatever is sent, it is refused or an object.
func FuzzJSON(f *testing.F) {
	f.Add(`{"onboot": true, "memory": 320, "a": "b", "c": null, "d": [1]}`)
	f.Add(`[]`)
	f.Add(` `)
	f.Fuzz(func(t *testing.T, text string) {
		out, err := parseJSON([]byte(text))
		if err != nil || strings.TrimSpace(text) == "" {
			return
		}
		var m map[string]any
		if json.Unmarshal([]byte(text), &m) != nil {
			t.Errorf("%q is read as %v", text, out)
		}
	})
}

// FuzzUpload: whatever a body is, reading it ends, within the room that there is.
func FuzzUpload(f *testing.F) {
	f.Add([]byte("--b\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\niso\r\n--b\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"a.iso\"\r\n\r\nxx\r\n--b--\r\n"))
	f.Add([]byte("--b"))
	f.Fuzz(func(t *testing.T, body []byte) {
		_, file, err := readParts(multipart.NewReader(bytes.NewReader(body), "b"), 64)
		if err == nil && file != nil && (file.size > 64 || int64(len(file.data)) != file.size) {
			t.Errorf("a file of %d bytes", file.size)
		}
	})
}

// FuzzKeys: the lists of key=value that disks and cards are written in.
func FuzzKeys(f *testing.F) {
	f.Add("net0", "virtio=BC:24:11:00:00:00,bridge=vmbr0")
	f.Add("scsi0", "local:1,format=qcow2")
	f.Add("memory", "lots")
	f.Add("tags", "a;b")
	f.Fuzz(func(t *testing.T, key, text string) {
		m, _ := loadTable()["9.1"].find("PUT", "/nodes/n/qemu/100/config")
		if p := m.property(key); p != nil {
			bad := p.check(key, value{text: text})
			if bad == "" && isDrive(key) {
				if d := parseDrive(text); parseDrive(d.String()).String() != d.String() {
					t.Errorf("%q is written %q", text, d)
				}
			}
		}
	})
}
