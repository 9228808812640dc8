package proxmox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// store is a Storage at work: a space on each node, or one for all.
type store struct {
	Storage
	spaces   map[string]*space
	inactive map[string]bool // on which nodes it is not reachable
}

// space is where volumes are.
type space struct {
	total, other int64 // bytes; other is what is not ours
	vols         map[string]*volume
	busy         int // how many allocate: the storage's lock
}

// volume is a disk, ISO or image file.
type volume struct {
	id       string
	storage  string
	vtype    string // images, iso, import or vztmpl
	format   string
	size     int64 // as a guest sees it
	used     int64
	owner    int    // vmid of an image
	parent   string // the base volume of a linked clone
	created  time.Time
	content  blob
	image    string // SHA-256 of the image file that it goes back to
	file     string // where that file is
	booted   bool
	identity string
}

// blob is a file's content, in memory or in a directory.
type blob struct {
	data []byte
	path string
	sum  string
}

func (b blob) bytes() []byte {
	if b.path == "" {
		return b.data
	}
	data, err := os.ReadFile(b.path)
	if err != nil {
		return nil
	}
	return data
}

// keep stores content.
func (s *Server) keep(name string, data []byte) blob {
	sum := sha256.Sum256(data)
	b := blob{data: data, sum: hex.EncodeToString(sum[:])}
	if s.opts.Dir != "" {
		path := filepath.Join(s.opts.Dir, b.sum[:16]+"-"+filepath.Base(name))
		if err := os.WriteFile(path, data, 0o600); err == nil {
			b.data, b.path = nil, path
		}
	}
	return b
}

func newStore(st Storage, nodes []*node) *store {
	if st.SizeGB == 0 {
		st.SizeGB = 256
	}
	if st.Kind == "nfs" {
		st.Shared = true
	}
	out := &store{Storage: st, spaces: map[string]*space{}, inactive: map[string]bool{}}
	if st.Shared {
		one := &space{total: st.SizeGB << 30, vols: map[string]*volume{}}
		for _, n := range nodes {
			out.spaces[n.Name] = one
		}
		return out
	}
	for _, n := range nodes {
		if out.on(n.Name) {
			out.spaces[n.Name] = &space{total: st.SizeGB << 30, vols: map[string]*volume{}}
		}
	}
	return out
}

func (st *store) on(node string) bool { return len(st.Nodes) == 0 || slices.Contains(st.Nodes, node) }

func (st *store) holds(content string) bool { return slices.Contains(st.Content, content) }

// files says that it keeps files, not block devices.
func (st *store) files() bool { return st.Kind == "dir" || st.Kind == "nfs" }

// linked says that its base volumes can be cloned without copying.
func (st *store) linked() bool { return st.Kind != "lvm" }

func (sp *space) used() int64 {
	n := sp.other
	for _, v := range sp.vols {
		n += v.used
	}
	return n
}

// storage finds a storage by its name.
func (s *Server) storage(id string) (*store, error) {
	if st := s.stores[id]; st != nil {
		return st, nil
	}
	return nil, die(fmt.Sprintf("storage '%s' does not exist", id))
}

// enabled finds a storage that can be used on a node.
func (s *Server) enabled(id, node string) (*store, *space, error) {
	st, err := s.storage(id)
	if err != nil {
		return nil, nil, err
	}
	if st.Disabled {
		return nil, nil, die(fmt.Sprintf("storage '%s' is disabled", id))
	}
	sp := st.spaces[node]
	if sp == nil || !st.on(node) {
		return nil, nil, die(fmt.Sprintf("storage '%s' is not available on node '%s'", id, node))
	}
	return st, sp, nil
}

// volname is the name of a volume in parts.
type volname struct {
	storage, name string
	vtype         string
	format        string
	owner         int
	base          string // the name of the base of a linked clone
}

var (
	dirClone = regexp.MustCompile(`^((\d+)/(base-[^/\s]+\.(?:raw|qcow2|vmdk)))/(\d+)/([^/\s]+\.(raw|qcow2|vmdk))$`)
	dirImage = regexp.MustCompile(`^(\d+)/([^/\s]+\.(raw|qcow2|vmdk))$`)
	dirFile  = regexp.MustCompile(`^(iso|vztmpl|import|snippets|backup)/([^/\s]+)$`)
	block    = regexp.MustCompile(`^(?:(base-\d+-[^/\s]+)/)?((?:vm|base)-(\d+)-\S+)$`)
	isoName  = regexp.MustCompile(`(?i)^[^/]+\.(iso|img)$`)
	importOK = regexp.MustCompile(`(?i)^[^/]+\.(qcow2|raw|vmdk|ova)$`)
	tarName  = regexp.MustCompile(`(?i)^[^/]+\.tar\.(gz|xz|zst|bz2)$`)
)

// volume takes the name of a volume apart.
func (s *Server) volume(id string) (volname, error) {
	sid, name, ok := strings.Cut(id, ":")
	if !ok {
		return volname{}, die(fmt.Sprintf("unable to parse volume ID '%s'", id))
	}
	st, err := s.storage(sid)
	if err != nil {
		return volname{}, err
	}
	v := volname{storage: sid, name: name, vtype: "images", format: "raw"}
	if !st.files() {
		g := block.FindStringSubmatch(name)
		if g == nil {
			return v, die(fmt.Sprintf("unable to parse %s volume name '%s'", map[string]string{"zfspool": "zfs"}[st.Kind]+map[bool]string{true: "lvm"}[st.Kind != "zfspool"], name))
		}
		v.base, v.owner = g[1], atoi(g[3])
		return v, nil
	}
	if g := dirClone.FindStringSubmatch(name); g != nil {
		v.base, v.owner, v.format = g[1], atoi(g[4]), g[6]
		return v, nil
	}
	if g := dirImage.FindStringSubmatch(name); g != nil {
		v.owner, v.format = atoi(g[1]), g[3]
		return v, nil
	}
	if g := dirFile.FindStringSubmatch(name); g != nil {
		v.vtype = g[1]
		v.format = strings.ToLower(strings.TrimPrefix(filepath.Ext(g[2]), "."))
		return v, nil
	}
	return v, die(fmt.Sprintf("unable to parse directory volume name '%s'", name))
}

// find finds a volume as a node sees it; nil when it is not there.
func (s *Server) find(id, node string) *volume {
	sid, _, _ := strings.Cut(id, ":")
	if st := s.stores[sid]; st != nil && st.spaces[node] != nil {
		return st.spaces[node].vols[id]
	}
	return nil
}

// imageName is the volume id of a disk.
func (st *store) imageName(prefix string, vmid, n int, format, base string) string {
	name := fmt.Sprintf("%s-%d-disk-%d", prefix, vmid, n)
	if st.files() {
		name = fmt.Sprintf("%d/%s.%s", vmid, name, format)
	}
	if base != "" && (st.files() || st.Kind == "zfspool") {
		name = base + "/" + name
	}
	return st.ID + ":" + name
}

// allocate makes a disk for a machine under the storage's lock, which is waited for.
func (s *Server) allocate(t *task, st *store, sp *space, v volume, prefix, base string) (*volume, error) {
	until := s.clock.Now().Add(time.Duration(float64(lockOther) * s.opts.Scale))
	for sp.busy > 0 {
		if !s.clock.Now().Before(until) {
			return nil, die(fmt.Sprintf("can't lock file '/var/lock/pve-manager/pve-storage-%s' - got timeout", st.ID))
		}
		if err := s.wait(t, poll); err != nil {
			return nil, err
		}
	}
	sp.busy++
	err := s.wait(t, 10*time.Millisecond)
	sp.busy--
	if err != nil {
		return nil, err
	}
	if st.Kind == "lvm" { // thick
		v.used = v.size
	}
	if sp.used()+v.used > sp.total {
		return nil, die("unable to create image: No space left on device")
	}
	for n := 0; ; n++ {
		v.id = st.imageName(prefix, v.owner, n, v.format, base)
		if !s.taken(sp, v.id, v.owner, n) {
			break
		}
	}
	v.storage, v.vtype, v.created, v.identity = st.ID, "images", s.clock.Now(), s.uuid()
	out := &v
	sp.vols[v.id] = out
	return out, nil
}

// taken says whether a machine has a disk of that number already.
func (s *Server) taken(sp *space, id string, owner, n int) bool {
	if sp.vols[id] != nil {
		return true
	}
	suffix := fmt.Sprintf("-%d-disk-%d", owner, n)
	for _, v := range sp.vols {
		name, _, _ := strings.Cut(filepath.Base(v.id), ".")
		if v.owner == owner && strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return false
}

// mayUse checks that somebody may attach a volume to a machine.
func (s *Server) mayUse(who string, vmid int, id string) error {
	v, err := s.volume(id)
	if err != nil {
		return err
	}
	at := "/storage/" + v.storage
	switch {
	case s.access.has(who, at, "Datastore.Allocate"):
		return nil
	case v.vtype == "iso" || v.vtype == "vztmpl" || v.vtype == "import":
		return s.access.checkAny(who, at, "Datastore.AllocateSpace", "Datastore.Audit")
	case v.vtype == "images" && v.owner == vmid:
		return nil
	case v.vtype == "images":
		if err := s.access.check(who, at, "Datastore.Audit"); err != nil {
			return err
		}
		return s.access.check(who, fmt.Sprintf("/vms/%d", v.owner), "VM.Config.Disk")
	}
	return die("missing privileges to access " + id)
}

// units are the suffixes of sizes.
var units = map[string]int64{"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

// parseSize reads a size such as 10G; 0 for what is none.
func parseSize(text string) int64 {
	unit := ""
	if n := len(text); n > 0 && strings.ContainsAny(text[n-1:], "KMGT") {
		unit, text = text[n-1:], text[:n-1]
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 {
		return 0
	}
	return int64(f * float64(units[unit]))
}

// formatSize writes a size as Proxmox does: in the largest unit that fits without a rest.
func formatSize(n int64) string {
	unit := ""
	for _, u := range []string{"K", "M", "G", "T"} {
		if n == 0 || n%1024 != 0 {
			break
		}
		n, unit = n/1024, u
	}
	return strconv.FormatInt(n, 10) + unit
}
