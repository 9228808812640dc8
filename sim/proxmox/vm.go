package proxmox

import (
	"crypto/sha1" //nolint:gosec // the digest of a configuration is this in Proxmox
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// vm is a machine: its configuration file and, when it runs, its process.
type vm struct {
	id      int
	node    string
	conf    map[string]string // what the file says
	pending map[string]string // what will be at the next start
	gone    map[string]bool   // what will be taken away at the next start
	snaps   map[string]map[string]string
	ha      bool

	guest   Guest
	running bool
	paused  bool
	since   time.Time
	history []broadcast
	by      string // who made it
}

func newVM(id int, on *node, by string, conf map[string]string) *vm {
	return &vm{id: id, node: on.Name, by: by, conf: conf, pending: map[string]string{}, gone: map[string]bool{}, snaps: map[string]map[string]string{}}
}

// broadcast is what pvestatd would say of a machine from a moment on.
type broadcast struct {
	at           time.Time
	name, status string
	cpus, mem    int64
	disk         int64
	template     bool
}

// missing are the two ways to say that there is no machine.
func missing(n *node, vmid int) error {
	return die(fmt.Sprintf("Configuration file 'nodes/%s/qemu-server/%d.conf' does not exist", n.Name, vmid))
}

func notFound(n *node, vmid int) error {
	return die(fmt.Sprintf("unable to find configuration file for VM %d on node '%s'", vmid, n.Name))
}

// load finds a machine on a node.
func (s *Server) load(n *node, vmid int) (*vm, error) {
	if v := s.vms[vmid]; v != nil && v.node == n.Name {
		return v, nil
	}
	return nil, missing(n, vmid)
}

func (v *vm) checkLock() error {
	if l := v.conf["lock"]; l != "" {
		return die(fmt.Sprintf("VM is locked (%s)", l))
	}
	return nil
}

func (v *vm) template() bool { return v.conf["template"] == "1" }

// name is what it is called in lists.
func (v *vm) name() string {
	if n := v.conf["name"]; n != "" {
		return n
	}
	return fmt.Sprintf("VM %d", v.id)
}

func (v *vm) number(key string, otherwise int64) int64 {
	text, _, _ := strings.Cut(v.conf[key], ",")
	text = strings.TrimPrefix(text, "current=")
	if n := atoi(text); n > 0 {
		return int64(n)
	}
	return otherwise
}

func (v *vm) cpus() int64 { return v.number("cores", 1) * v.number("sockets", 1) }

func (v *vm) memory() int64 { return v.number("memory", 512) << 20 }

func (v *vm) status() string {
	if v.running {
		return "running"
	}
	return "stopped"
}

// shown is the configuration with what is pending.
func (v *vm) shown() map[string]string {
	out := maps.Clone(v.conf)
	maps.Copy(out, v.pending)
	for k := range v.gone {
		delete(out, k)
	}
	return out
}

// text is the configuration file.
func (v *vm) text() string {
	var b strings.Builder
	if d := v.conf["description"]; d != "" {
		for l := range strings.SplitSeq(d, "\n") {
			b.WriteString("#" + escape(l) + "\n")
		}
	}
	section := func(conf map[string]string) {
		for _, k := range slices.Sorted(maps.Keys(conf)) {
			if k != "description" {
				fmt.Fprintf(&b, "%s: %s\n", k, conf[k])
			}
		}
	}
	section(v.conf)
	if len(v.pending) > 0 || len(v.gone) > 0 {
		b.WriteString("\n[PENDING]\n")
		if len(v.gone) > 0 {
			b.WriteString("delete: " + strings.Join(slices.Sorted(maps.Keys(v.gone)), ",") + "\n")
		}
		section(v.pending)
	}
	for _, n := range slices.Sorted(maps.Keys(v.snaps)) {
		b.WriteString("\n[" + n + "]\n")
		section(v.snaps[n])
	}
	return b.String()
}

// escape writes a line of a description: control characters, what is not ASCII, : and % as %XX.
func escape(line string) string {
	var b strings.Builder
	for _, c := range []byte(line) {
		if c < 0x20 || c >= 0x7f || c == ':' || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func (v *vm) digest() string {
	sum := sha1.Sum([]byte(v.text())) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// typed is a value as the API gives it: what the description calls a number is one.
func (s *Server) typed(key, text string) any {
	m, _ := s.api.find("PUT", "/nodes/n/qemu/100/config")
	p := m.property(key)
	if p != nil && p.Format.keys == nil && (p.Type == "integer" || p.Type == "boolean") {
		if n := atoi(text); n >= 0 {
			return n
		}
	}
	return text
}

// drives are the names of the keys that hold disks.
func drives() []string {
	var out []string
	for _, bus := range []string{"ide", "scsi", "virtio", "sata"} {
		for i := range limits[bus] {
			out = append(out, fmt.Sprintf("%s%d", bus, i))
		}
	}
	return append(out, "efidisk0", "tpmstate0")
}

var driveNames = func() map[string]bool {
	out := map[string]bool{}
	for _, k := range drives() {
		out[k] = true
	}
	return out
}()

func isDrive(key string) bool { return driveNames[key] }

// drive is the value of a disk's key.
type drive struct {
	file string
	opts map[string]string
}

// parseDrive reads a disk's value.
func parseDrive(text string) drive {
	d := drive{opts: map[string]string{}}
	for i, part := range strings.Split(text, ",") {
		k, v, ok := strings.Cut(part, "=")
		switch {
		case !ok && i == 0:
			d.file = part
		case k == "file" || k == "volume":
			d.file = v
		case ok:
			d.opts[k] = v
		}
	}
	return d
}

func (d drive) String() string {
	parts := []string{d.file}
	for _, k := range slices.Sorted(maps.Keys(d.opts)) {
		parts = append(parts, k+"="+d.opts[k])
	}
	return strings.Join(parts, ",")
}

func (d drive) cdrom() bool {
	return d.opts["media"] == "cdrom" || d.file == "none" && d.opts["media"] == "" || d.file == "cdrom"
}

// volumes are the disks of a configuration that are no CD-ROMs, by their keys, the unused ones too.
func volumes(conf map[string]string) map[string]drive {
	out := map[string]drive{}
	for k, text := range conf {
		if isDrive(k) || strings.HasPrefix(k, "unused") {
			if d := parseDrive(text); !d.cdrom() && strings.Contains(d.file, ":") {
				out[k] = d
			}
		}
	}
	return out
}

// bootOrder is what Proxmox boots from when it is not told: the first disk, the first CD-ROM, the first network card.
func bootOrder(conf map[string]string) string {
	var disk, cd, net string
	for _, bus := range []string{"scsi", "virtio", "sata", "ide"} {
		for i := range limits[bus] {
			k := fmt.Sprintf("%s%d", bus, i)
			text, ok := conf[k]
			if !ok {
				continue
			}
			if parseDrive(text).cdrom() {
				if cd == "" {
					cd = k
				}
			} else if disk == "" {
				disk = k
			}
		}
	}
	for i := range limits["net"] {
		if k := fmt.Sprintf("net%d", i); conf[k] != "" {
			net = k
			break
		}
	}
	var order []string
	for _, k := range []string{disk, cd, net} {
		if k != "" {
			order = append(order, k)
		}
	}
	if len(order) == 0 {
		return " "
	}
	return "order=" + strings.Join(order, ";")
}

// netText completes a network card with an address and puts it in Proxmox's order.
func (s *Server) netText(text string) string {
	m, _ := s.api.find("PUT", "/nodes/n/qemu/100/config")
	keys, bad := parseKeys(m.property("net0").Format.keys, "net0", text)
	if bad != "" {
		return text
	}
	if keys["macaddr"] == "" {
		keys["macaddr"] = s.mac()
	}
	parts := []string{keys["model"] + "=" + strings.ToUpper(keys["macaddr"])}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if k != "model" && k != "macaddr" {
			parts = append(parts, k+"="+keys[k])
		}
	}
	return strings.Join(parts, ",")
}

// bridges are the bridges of a configuration's network cards.
func bridges(conf map[string]string) map[string]string {
	out := map[string]string{}
	for k, text := range conf {
		if strings.HasPrefix(k, "net") {
			for part := range strings.SplitSeq(text, ",") {
				if b, ok := strings.CutPrefix(part, "bridge="); ok {
					out[k] = b
				}
			}
		}
	}
	return out
}

// checkBridges checks that somebody may use the bridges of a configuration.
func (s *Server) checkBridges(who string, conf map[string]string) error {
	used := bridges(conf)
	for _, k := range slices.Sorted(maps.Keys(used)) {
		if err := s.access.check(who, "/sdn/zones/localnetwork/"+used[k], "SDN.Use"); err != nil {
			return err
		}
	}
	return nil
}

// tidyTags is a list of tags as Proxmox keeps it.
func tidyTags(text string) string {
	tags := split(strings.ToLower(text))
	slices.Sort(tags)
	if tags = slices.Compact(tags); len(tags) == 0 {
		return " "
	}
	return strings.Join(tags, ";")
}

// diskSize is the size of the first disk in bytes; 0 when there is none.
func (v *vm) diskSize() int64 {
	for _, k := range []string{"scsi0", "virtio0", "sata0", "ide0"} {
		if text, ok := v.conf[k]; ok {
			if d := parseDrive(text); !d.cdrom() {
				return parseSize(d.opts["size"])
			}
		}
	}
	return 0
}

// publish says what lists will show of a machine once pvestatd has looked. Called under mu, after every change.
func (s *Server) publish(v *vm) {
	b := broadcast{
		at: s.clock.Now(), name: v.name(), status: v.status(), cpus: v.cpus(), mem: v.memory(), template: v.template(),
	}
	b.disk = v.diskSize()
	if tick := s.tick(v.node); len(v.history) > 1 { // only the last that was looked at matters, and what came since
		for len(v.history) > 1 && !v.history[1].at.After(tick) {
			v.history = v.history[1:]
		}
	}
	v.history = append(v.history, b)
	s.touch()
}

// statInterval is how often pvestatd looks.
const statInterval = 10 * time.Second

// tick is when pvestatd of a node has looked last.
func (s *Server) tick(name string) time.Time {
	n, now := s.nodes[name], s.clock.Now()
	every := time.Duration(float64(statInterval) * s.opts.Scale)
	phase := time.Duration(float64(n.phase) * s.opts.Scale)
	since := now.Sub(n.joined) - phase
	return n.joined.Add(phase + since.Truncate(every))
}

// lastSeen is what pvestatd has said of a machine; false when it has not looked since it was made.
func (s *Server) lastSeen(v *vm) (broadcast, bool) {
	tick := s.tick(v.node)
	for _, v0 := range slices.Backward(v.history) {
		if !v0.at.After(tick) {
			return v0, true
		}
	}
	return broadcast{}, false
}
