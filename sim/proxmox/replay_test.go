package proxmox

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// shared is a file beside the tree, or above it; empty when it is not there.
func shared(t *testing.T, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if p := filepath.Join(dir, "shared", "data", "pve", name); exists(p) {
			return p
		}
	}
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// exchange is a recorded request and what the real one answered.
type exchange struct {
	Method, Path, As, Form, Reason string
	Status                         int
	ContentType                    *string `json:"content_type"` //nolint:tagliatelle // as it was recorded
	Body                           any
}

// ciPrivileges are what the recorded token runner@pve!ci had.
var ciPrivileges = strings.Fields(`Pool.Audit VM.Config.Memory Datastore.Audit VM.Config.Options SDN.Use Sys.Audit Datastore.AllocateTemplate VM.Config.HWType
	VM.Clone VM.Config.Disk VM.Allocate VM.Config.Network VM.Audit VM.PowerMgmt VM.Config.CDROM Datastore.AllocateSpace VM.Config.CPU`)

// player replays.
type player struct {
	*rig
	time   Client
	tokens map[string]string
	upids  map[string]string // recorded to ours
}

// expected are exchanges that the simulation answers differently, with the reason. The list may only get shorter.
var expected = map[int]string{}

// held are exchanges after which tasks go on, as they did when they were recorded.
var held = map[int]bool{15: true, 186: true, 187: true, 188: true, 189: true, 190: true, 191: true, 192: true, 193: true, 217: true}

// TestRecordedExchanges replays what was said to a real Proxmox VE 9.2 and compares status, reason and body.
func TestRecordedExchanges(t *testing.T) {
	t.Parallel()
	path := shared(t, "recorded-9.2.jsonl")
	if path == "" {
		t.Skip("the recorded exchanges are not on this machine (shared/data/pve beside the tree)")
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	p := newPlayer(t)
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	n, matched := 0, 0
	for ; lines.Scan(); n++ {
		var x exchange
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatal(err)
		}
		if !held[n-1] {
			p.drain()
		}
		if stage := stages[n]; stage != nil {
			stage(p)
		}
		switch diff := p.play(x); {
		case diff == "":
			matched++
			if expected[n] != "" {
				t.Errorf("exchange %d matches: take it out of the table", n)
			}
		case expected[n] == "":
			t.Errorf("exchange %d: %s %s as %s (%s): %s", n, x.Method, x.Path, x.As, x.Form, diff)
		}
	}
	if n != 295 || matched+len(expected) != n {
		t.Errorf("%d of %d exchanges match, %d are declared not to", matched, n, len(expected))
	}
	t.Logf("%d of %d recorded exchanges match", matched, n)
}

func newPlayer(t *testing.T) *player {
	t.Helper()
	p := &player{rig: newRig(t, Options{Version: "9.2", Driver: NullDriver{Deaf: true}}), upids: map[string]string{}, tokens: map[string]string{}}
	p.time = p.clock.Join()
	t.Cleanup(p.time.Leave)
	p.tokens["root@pam!full"] = p.root
	for _, who := range []string{"runner@pve!ci", "runner@pve!nopriv", "pooler@pve!tok"} {
		name, id, _ := strings.Cut(who, "!")
		p.tokens[who] = p.AddToken(name, id, true)
	}
	p.AddRole("CI", ciPrivileges...)
	p.Grant("/", "runner@pve", "Administrator")
	p.Grant("/", "runner@pve!ci", "CI")
	return p
}

// drain lets time pass until no task runs.
func (p *player) drain() {
	for p.Running() > 0 {
		_ = p.time.Sleep(p.t.Context(), 100*time.Millisecond)
	}
}

// ok makes something happen that was not recorded, and must work.
func (p *player) ok(who, method, path, form string) {
	p.t.Helper()
	p.as(p.tokens[who], method, "/nodes/pve1/qemu/"+path, form).want(200, "OK")
	p.drain()
}

// without gives the recorded token everything but some privileges.
func (p *player) without(privs ...string) {
	p.AddRole("CI", slices.DeleteFunc(append(slices.Clone(ciPrivileges), "Datastore.Allocate"), func(x string) bool { return slices.Contains(privs, x) })...)
}

func (p *player) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *player) play(x exchange) string {
	token, ok := p.tokens[x.As]
	if header, literal := strings.CutPrefix(x.As, "auth='"); literal {
		token = strings.TrimPrefix(strings.TrimSuffix(header, "'"), "PVEAPIToken=")
	} else if !ok {
		p.t.Fatalf("nobody is called %s", x.As)
	}
	path := strings.TrimPrefix(x.Path, root)
	for recorded, ours := range p.upids {
		path = strings.ReplaceAll(strings.ReplaceAll(path, strings.NewReplacer(":", "%3A", "@", "%40", "!", "%21").Replace(recorded), ours), recorded, ours)
	}
	var g got
	switch {
	case strings.HasSuffix(path, "/upload"):
		fields := []string{"content", "iso"}
		if x.Status == 400 {
			fields = nil
		}
		store := strings.Split(path, "/")[4]
		g = p.upload(token, "pve1", store, "seed.iso", make([]byte, 358400), fields...)
	case x.Form == "<raw>":
		g = p.as(token, x.Method, path, "memory=100&memory=200")
	case strings.HasPrefix(x.Form, "{"):
		g = p.send(token, x.Method, path, "application/json", strings.NewReader(x.Form))
	case x.Method == http.MethodPut || x.Method == http.MethodPost:
		g = p.send(token, x.Method, path, "application/x-www-form-urlencoded", strings.NewReader(x.Form))
	default:
		g = p.as(token, x.Method, path, "")
	}
	if g.status != x.Status || g.reason != x.Reason {
		return fmt.Sprintf("answered %d %s, recorded %d %s", g.status, g.reason, x.Status, x.Reason)
	}
	if kind := g.header.Get("Content-Type"); x.ContentType == nil && kind != "" || x.ContentType != nil && kind != *x.ContentType {
		return fmt.Sprintf("Content-Type %q", kind)
	}
	if x.Body == nil {
		if len(g.body) > 0 {
			return "has a body: " + string(g.body)
		}
		return ""
	}
	var ours any
	if err := json.Unmarshal(g.body, &ours); err != nil {
		return err.Error()
	}
	if m, ok := x.Body.(map[string]any); ok {
		if recorded, ok := m["data"].(string); ok && strings.HasPrefix(recorded, "UPID:") {
			if mine, ok := ours.(map[string]any)["data"].(string); ok {
				p.upids[recorded] = mine
			}
		}
	}
	want, have := calm("", x.Body), calm("", ours)
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(have)
	if string(a) != string(b) {
		return fmt.Sprintf("\nanswered %s\nrecorded %s", b, a)
	}
	return ""
}

// What is different every time, and so is not compared.
var (
	// moments and names of processes, digests and uuids
	volatileKeys = strings.Fields("digest vmgenid ctime starttime endtime pid pstart uptime ssl_fingerprint")
	// sizes and loads of the machine that was recorded
	hostKeys = strings.Fields("cpu mem disk maxdisk maxmem used avail total used_fraction")
	volatile = []struct {
		re *regexp.Regexp
		to string
	}{
		{regexp.MustCompile(`UPID:([^:]+):[0-9A-F]+:[0-9A-F]+:[0-9A-F]+:`), "UPID:$1:_:_:_:"},
		{regexp.MustCompile(`uuid=[0-9a-f-]{36}`), "uuid=_"},
		{regexp.MustCompile(`[0-9A-F]{2}(:[0-9A-F]{2}){5}`), "MAC"},
		{regexp.MustCompile(`ctime=\d+`), "ctime=_"},
		{regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`), "UUID"},
		{regexp.MustCompile(`^[0-9a-f]{40}$`), "DIGEST"},
	}
)

// calm takes out what is different every time. Rows of lists are in no order, nor are words of a content list; how many tasks there
// were counts those that were not recorded too.
func calm(key string, x any) any {
	switch v := x.(type) {
	case map[string]any:
		out := map[string]any{}
		_, isStorage := v["avail"]
		host := v["type"] == "node" || v["type"] == "storage" || isStorage
		for k, e := range v {
			if slices.Contains(volatileKeys, k) || host && slices.Contains(hostKeys, k) || k == "total" {
				out[k] = "_"
				continue
			}
			out[k] = calm(k, e)
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, e := range v {
			out = append(out, calm("", e))
		}
		slices.SortFunc(out, func(a, b any) int {
			x, _ := json.Marshal(a)
			y, _ := json.Marshal(b)
			return bytes.Compare(x, y)
		})
		return out
	case string:
		if key == "content" {
			words := strings.Split(v, ",")
			slices.Sort(words)
			v = strings.Join(words, ",")
		}
		for _, r := range volatile {
			v = r.re.ReplaceAllString(v, r.to)
		}
		return v
	}
	return x
}

// stages are what happened between the recorded exchanges and was not recorded, by the exchange that it came before.
var stages = func() map[int]func(*player) {
	root, ci := "root@pam!full", "runner@pve!ci"
	out := map[int]func(*player){
		20: func(p *player) {
			for _, f := range []string{"bad_name_.iso", "seed2.iso", "seed6.iso", "x.img"} {
				p.must(p.Put("pve1", "local:iso/"+f, make([]byte, 358400)))
			}
			p.must(p.Put("pve1", "local:iso/empty.iso", nil))
		},
		56:  func(p *player) { p.ok(root, "POST", "200/template", "") },
		89:  func(p *player) { p.must(p.Delete(202)) },
		95:  func(p *player) { p.ok(root, "POST", "204/status/start", "") },
		102: func(p *player) { p.must(p.Delete(204)) },
		107: func(p *player) { p.must(p.Set(202, "lock", "backup")) },
		111: func(p *player) {
			p.ok(root, "POST", "202/status/start", "")
			p.ok(root, "PUT", "202/resize", "disk=scsi0&size=%2B1G")
			p.ok(root, "DELETE", "202", "")
			p.must(p.Unset(202, "lock"))
		},
		113: func(p *player) { p.must(p.Unset(202, "protection")) },
		120: func(p *player) {
			p.ok(root, "POST", "300/template", "")
			p.ok(ci, "POST", "300/clone", "newid=301")
		},
		121: func(p *player) { p.ok(ci, "POST", "301/status/start", "") },
		122: func(p *player) { p.without() },
		136: func(p *player) { p.without("VM.Allocate") },
		151: func(p *player) { p.without("VM.Audit") },
		152: func(p *player) { p.without("VM.Clone") },
		172: func(p *player) { p.without("Datastore.AllocateSpace") },
		174: func(p *player) { p.without("Datastore.Allocate") },
		178: func(p *player) { p.without() },
		// five created 630 at once: what was answered first had lost already
		181: func(p *player) { p.must(p.Create("pve1", 630, nil)) },
		183: func(p *player) { p.must(p.Delete(630)) },
		187: func(p *player) { _ = p.time.Sleep(p.t.Context(), time.Second) },
		194: func(p *player) {
			for recorded, ours := range p.upids {
				if strings.Contains(recorded, ":0007DF89:") {
					p.as(p.root, "DELETE", "/nodes/pve1/tasks/"+ours, "").want(200, "OK")
				}
			}
			p.drain()
		},
		198: func(p *player) {
			p.AddRole("T", "VM.Clone", "VM.Audit")
			p.AddRole("P", strings.Fields("VM.Allocate VM.Audit VM.Config.CDROM VM.Config.Memory VM.Config.Options VM.PowerMgmt VM.Config.Disk")...)
			p.AddRole("S", "Datastore.AllocateSpace", "Datastore.Audit")
			p.AddRole("N", "SDN.Use")
			for _, who := range []string{"pooler@pve", "pooler@pve!tok"} {
				p.Grant("/vms/300", who, "T")
				p.Grant("/pool/ci", who, "P")
				p.Grant("/storage/local", who, "S")
			}
		},
		204: func(p *player) {
			p.Grant("/sdn/zones/localnetwork/vmbr0", "pooler@pve", "N")
			p.Grant("/sdn/zones/localnetwork/vmbr0", "pooler@pve!tok", "N")
			p.untilTick() // the next exchanges come before pvestatd looks again
		},
		213: func(p *player) { p.ok(root, "POST", "810/status/start", "") },
		218: func(p *player) {
			_ = p.time.Sleep(p.t.Context(), time.Second)
			p.KillWorkers("qmclone")
			p.drain()
		},
		223: func(p *player) { p.SetQuorum(false) },
		228: func(p *player) { p.SetQuorum(true); p.SetDaemon("pve1", false) },
		231: func(p *player) { p.SetDaemon("pve1", true) },
		234: func(p *player) { p.ok(root, "POST", "300/clone", "newid=911") },
		249: func(p *player) {
			for _, id := range []int{301, 401, 700, 901} {
				p.must(p.Delete(id))
			}
		},
		253: func(p *player) { p.must(p.Delete(320)) },
		264: func(p *player) { p.must(p.Create("pve1", 342, nil)) },
		273: func(p *player) { p.Grant("/", "runner@pve!nopriv", "CI") },
		275: func(p *player) { p.must(p.Delete(500)) },
		279: func(p *player) { p.Deny("/", "runner@pve!nopriv") },
		285: func(p *player) { p.must(p.Delete(350)) },
		286: func(p *player) { p.must(p.Delete(500)) },
		287: func(p *player) { p.must(p.Put("pve1", "local:import/zoomies-app.qcow2", make([]byte, 196616))) },
		291: func(p *player) {
			p.tokens["zoomies@pve!zt"] = p.Scoped("zoomies", "zoomies@pve", "zt", "vmbr0", "local")
			p.must(p.Put("pve1", "local:import/zapp2.qcow2", make([]byte, 196616)))
		},
	}
	// one privilege at a time was taken away, and what had been cloned before was configured
	for n, missing := range map[int]struct {
		vmid int
		priv string
	}{
		153: {405, "VM.Config.CDROM"}, 154: {406, "VM.Config.CPU"}, 157: {407, "VM.Config.Disk"}, 159: {408, "VM.Config.HWType"}, 161: {409, "VM.Config.Memory"},
		163: {410, "VM.Config.Network"}, 165: {411, "VM.Config.Options"}, 171: {412, "VM.PowerMgmt"}, 175: {417, "SDN.Use"},
	} {
		out[n] = func(p *player) {
			p.ok(root, "POST", "300/clone", fmt.Sprintf("newid=%d", missing.vmid))
			p.without(missing.priv)
		}
	}
	return maps.Clone(out)
}()

// untilTick waits until pvestatd has just looked.
func (p *player) untilTick() {
	p.Server.mu.Lock()
	since := p.Server.clock.Now().Sub(p.Server.tick("pve1"))
	p.Server.mu.Unlock()
	_ = p.time.Sleep(p.t.Context(), statInterval-since)
}
