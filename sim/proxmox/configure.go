package proxmox

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// throttled is how long so many bytes take at so many KiB a second.
func (s *Server) throttled(n, kib int64) time.Duration {
	return time.Duration(float64(n) / float64(kib<<10) * float64(time.Second))
}

// atOnce are options that a running machine takes without being restarted.
var atOnce = strings.Fields("lock name onboot shares startup description protection vmstatestorage hookscript tags")

// update is what a PUT or POST of a configuration wants.
type update struct {
	set    map[string]string
	remove []string
	digest string
	who    string
}

// qemuConfigure is PUT and POST /nodes/{node}/qemu/{vmid}/config.
func qemuConfigure(c *call) (any, error) {
	if c.has("skiplock") && c.who != rootUser {
		return nil, wrongField("skiplock", "Only root may use this option.")
	}
	u := update{set: c.options(), digest: c.get("digest"), who: c.who}
	remove := split(c.get("delete"))
	if len(u.set) == 0 && len(remove) == 0 && !c.has("revert") {
		return nil, die("no options specified")
	}
	for _, k := range remove {
		if k == "cdrom" {
			k = "ide2"
		}
		if _, both := u.set[k]; both {
			return nil, wrongField("delete", fmt.Sprintf("you can't use '-%s' and -delete %s' at the same time", k, k))
		}
		if !c.optionExists(k) {
			return nil, wrongField("delete", fmt.Sprintf("unknown option '%s'", k))
		}
		u.remove = append(u.remove, k)
	}
	id, n := c.vmid(), c.node()
	if err := c.checkOptions(c.who, id, "", slices.Clone(u.remove)); err != nil {
		return nil, err
	}
	if err := c.checkOptions(c.who, id, "", slices.Collect(maps.Keys(u.set))); err != nil {
		return nil, err
	}
	if err := c.checkStorage(c.who, id, u.set, ""); err != nil {
		return nil, err
	}
	if err := c.checkBridges(c.who, u.set); err != nil {
		return nil, err
	}
	v, err := c.load(n, id)
	if err == nil {
		err = v.checkLock() // before the lock file is waited for
	}
	if err != nil {
		return nil, err
	}
	release, err := c.lock(c.ctx, nil, id, false, lockOther)
	if err != nil {
		return nil, err
	}
	v, err = c.load(n, id)
	switch {
	case err != nil:
	case u.digest != "" && u.digest != v.digest():
		err = die("checksum mismatch (file change by other user?)")
	default:
		err = v.checkLock()
	}
	if err == nil {
		err = c.checkSerial(c.who, id, "", u.set, "modify")
	}
	if err == nil {
		err = c.checkDrives(v, u)
	}
	if err != nil {
		release()
		return nil, err
	}
	if strings.HasPrefix(c.method.name, "POST") {
		release() // the worker locks for itself
		return c.begin("qmconfig", strconv.Itoa(id), func(t *task) error {
			return c.locked(t.ctx, t, id, false, lockOther, func() error { return c.apply(t, n, id, u, t.upid) })
		})
	}
	defer release()
	return nil, c.apply(nil, n, id, u, "")
}

func (s *Server) optionExists(key string) bool {
	if slices.Contains(notOptions, key) {
		return false
	}
	m, _ := s.api.find("PUT", "/nodes/n/qemu/100/config")
	return m.property(key) != nil
}

// checkDrives checks who may change disks and CD-ROMs.
func (s *Server) checkDrives(v *vm, u update) error {
	for _, k := range slices.Sorted(maps.Keys(u.set)) {
		if isDrive(k) {
			priv := "VM.Config.Disk"
			if parseDrive(u.set[k]).cdrom() {
				priv = "VM.Config.CDROM"
			}
			if err := s.access.checkVM(u.who, v.id, "", priv); err != nil {
				return err
			}
		}
	}
	for _, k := range u.remove {
		switch {
		case isDrive(k) && parseDrive(v.shown()[k]).cdrom():
			if err := s.access.checkVM(u.who, v.id, "", "VM.Config.CDROM"); err != nil {
				return err
			}
		case isDrive(k), strings.HasPrefix(k, "unused"):
			if err := s.access.checkVM(u.who, v.id, "", "VM.Config.Disk"); err != nil {
				return err
			}
		case serialName.MatchString(k):
			if err := s.access.checkVM(u.who, v.id, "", "VM.Config.HWType"); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply changes a configuration. t is nil in a synchronous call. What a running machine cannot take becomes pending.
func (s *Server) apply(t *task, n *node, id int, u update, upid string) error {
	v, err := s.load(n, id)
	if err != nil {
		return err
	}
	if err := v.checkLock(); err != nil {
		return err
	}
	worker := t
	if worker == nil { // disks that a synchronous call makes take its time, without a task's name
		worker = &task{node: n.Name, ctx: s.ctx, slow: 1}
	}
	set, _, err := s.makeDisks(worker, n, id, u.set, "")
	if err != nil {
		return err
	}
	for _, k := range u.remove {
		s.drop(v, k)
	}
	for k, text := range set {
		s.put(v, k, s.tidy(k, text))
	}
	s.publish(v)
	s.change(v, u.who, "config", upid)
	return nil
}

// drop takes an option away. The volume of a disk stays, as an unused one.
func (s *Server) drop(v *vm, k string) {
	old, ok := v.conf[k]
	delete(v.pending, k)
	if !ok {
		return
	}
	if v.running && !slices.Contains(atOnce, k) && !hotUnplug(k) {
		v.gone[k] = true
		return
	}
	delete(v.conf, k)
	d := parseDrive(old)
	switch {
	case strings.HasPrefix(k, "unused"):
		s.free(s.nodes[v.node], []string{d.file})
	case isDrive(k) && !d.cdrom():
		for i := 0; ; i++ {
			if key := fmt.Sprintf("unused%d", i); v.conf[key] == "" {
				v.conf[key] = d.file
				break
			}
		}
	}
}

var hotBus = regexp.MustCompile(`^(scsi|virtio|net)\d+$`)

func hotUnplug(key string) bool { return hotBus.MatchString(key) }

// put sets an option.
func (s *Server) put(v *vm, k, text string) {
	delete(v.gone, k)
	delete(v.pending, k)
	if k == "description" && text == "" {
		delete(v.conf, k)
		return
	}
	if v.running && !slices.Contains(atOnce, k) && !s.hotPlug(v, k, text) {
		if v.conf[k] != text {
			v.pending[k] = text
		}
		return
	}
	if old, ok := v.conf[k]; ok && isDrive(k) && !parseDrive(old).cdrom() && parseDrive(old).file != parseDrive(text).file {
		s.drop(v, k)
	}
	v.conf[k] = text
}

// hotPlug says whether a running machine takes a new value: a network card, a SCSI or virtio disk, and another medium in a CD-ROM
// that is there. A CD-ROM on IDE cannot be added or taken away.
func (s *Server) hotPlug(v *vm, k, text string) bool {
	if isDrive(k) && parseDrive(text).cdrom() {
		old, ok := v.conf[k]
		return ok && parseDrive(old).cdrom()
	}
	return hotBus.MatchString(k)
}

// settlePending is what happens at a start: what was pending becomes true.
func (s *Server) settlePending(v *vm) {
	if len(v.pending) == 0 && len(v.gone) == 0 {
		return
	}
	pending, gone := v.pending, v.gone
	v.pending, v.gone = map[string]string{}, map[string]bool{}
	for k := range gone {
		s.drop(v, k)
	}
	for k, text := range pending {
		s.put(v, k, text)
	}
}

// qemuResize is PUT /nodes/{node}/qemu/{vmid}/resize.
func qemuResize(c *call) (any, error) {
	if c.has("skiplock") && c.who != rootUser {
		return nil, wrongField("skiplock", "Only root may use this option.")
	}
	id, n, key, size, digest, who := c.vmid(), c.node(), c.get("disk"), c.get("size"), c.get("digest"), c.who
	return c.begin("resize", strconv.Itoa(id), func(t *task) error {
		return c.locked(t.ctx, t, id, false, lockOther, func() error {
			v, err := c.load(n, id)
			if err != nil {
				return err
			}
			if digest != "" && digest != v.digest() {
				return die("checksum mismatch (file change by other user?)")
			}
			if err := v.checkLock(); err != nil {
				return err
			}
			text, ok := v.conf[key]
			d := parseDrive(text)
			switch {
			case !ok:
				return die(fmt.Sprintf("disk '%s' does not exist", key))
			case d.cdrom():
				return die("you can't resize a cdrom")
			}
			vol := c.find(d.file, n.Name)
			if vol == nil {
				return die(fmt.Sprintf("volume '%s' does not exist", d.file))
			}
			want := parseSize(strings.TrimPrefix(size, "+"))
			if strings.HasPrefix(size, "+") {
				want += vol.size
			}
			if want < vol.size {
				return die("shrinking disks is not supported")
			}
			if err := c.disk(t, c.lat.Resize); err != nil {
				return err
			}
			vol.size = want
			d.opts["size"] = formatSize(want)
			v.conf[key] = d.String()
			c.publish(v)
			c.change(v, who, "resize", t.upid)
			return nil
		})
	})
}

// qemuTemplate is POST /nodes/{node}/qemu/{vmid}/template.
func qemuTemplate(c *call) (any, error) {
	id, n, who := c.vmid(), c.node(), c.who
	check := func() (*vm, error) {
		v, err := c.load(n, id)
		if err != nil {
			return nil, err
		}
		if err := v.checkLock(); err != nil {
			return nil, err
		}
		switch {
		case len(v.snaps) > 0:
			return nil, die("unable to create template, because VM contains snapshots")
		case v.template() && !c.has("disk"):
			return nil, die("you can't convert a template to a template")
		case v.running:
			return nil, die("you can't convert a VM to template if VM is running")
		}
		return v, nil
	}
	if _, err := check(); err != nil {
		return nil, err
	}
	return c.begin("qmtemplate", strconv.Itoa(id), func(t *task) error {
		return c.locked(t.ctx, t, id, false, lockOther, func() error {
			v, err := check()
			if err != nil {
				return err
			}
			if err := c.disk(t, c.lat.Template); err != nil {
				return err
			}
			for key, d := range volumes(v.conf) {
				sid, _, _ := strings.Cut(d.file, ":")
				st, vol := c.stores[sid], c.find(d.file, n.Name)
				if vol == nil {
					return die(fmt.Sprintf("volume '%s' does not exist", d.file))
				}
				if !st.linked() {
					return die(fmt.Sprintf("volume '%s' does not support template/clone", d.file))
				}
				if strings.HasPrefix(key, "unused") {
					continue
				}
				sp := st.spaces[n.Name]
				delete(sp.vols, vol.id)
				at := strings.LastIndex(vol.id, "vm-")
				vol.id = vol.id[:at] + "base-" + vol.id[at+len("vm-"):]
				sp.vols[vol.id] = vol
				d.file = vol.id
				v.conf[key] = d.String()
			}
			v.conf["template"] = "1"
			c.publish(v)
			c.change(v, who, "template", t.upid)
			return nil
		})
	})
}
