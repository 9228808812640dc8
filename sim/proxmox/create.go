package proxmox

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// qemuCreate is POST /nodes/{node}/qemu.
func qemuCreate(c *call) (any, error) {
	id, who, pool := c.vmid(), c.who, c.get("pool")
	vmid := strconv.Itoa(id)
	if err := c.access.poolExists(pool); err != nil {
		return nil, err
	}
	if st := c.get("storage"); st != "" {
		if err := c.access.check(who, "/storage/"+st, "Datastore.AllocateSpace"); err != nil {
			return nil, err
		}
	}
	if !c.access.has(who, "/vms/"+vmid, "VM.Allocate") && (pool == "" || !c.access.has(who, "/pool/"+pool, "VM.Allocate")) {
		return nil, denied("")
	}
	if c.has("archive") {
		return nil, die("restoring an archive is not simulated")
	}
	opts := c.options()
	if err := c.checkStorage(who, id, opts, c.get("storage")); err != nil {
		return nil, err
	}
	if err := c.checkOptions(who, id, pool, slices.Collect(maps.Keys(opts))); err != nil {
		return nil, err
	}
	if err := c.checkSerial(who, id, pool, opts, "set"); err != nil {
		return nil, err
	}
	if err := c.checkBridges(who, opts); err != nil {
		return nil, err
	}
	failed := "unable to create VM " + vmid + " - "
	if v := c.vms[id]; v != nil {
		return nil, die(fmt.Sprintf("%sVM %d already exists on node '%s'", failed, id, v.node))
	}
	n := c.node()
	v := newVM(id, n, who, map[string]string{"lock": "create"})
	c.vms[id] = v
	c.publish(v)
	start, storage := c.flag("start"), c.get("storage")
	return c.begin("qmcreate", vmid, func(t *task) error {
		return c.locked(t.ctx, t, id, false, lockClone, func() error {
			err := c.fillNew(t, n, v, opts, storage)
			if errors.Is(err, errKilled) {
				return err
			}
			if err != nil {
				delete(c.vms, id)
				c.touch()
				return die(failed + text(err))
			}
			if pool != "" && c.access.pools[pool] != nil {
				c.access.pools[pool].vms[id] = true
			}
			c.change(v, who, "create", t.upid)
			if start {
				t.say("Execute autostart")
				c.startTask(n, id, who)
			}
			return nil
		})
	})
}

// text is an error without its class.
func text(err error) string {
	if f, ok := errors.AsType[*fail](err); ok {
		return f.text
	}
	return err.Error()
}

// fillNew makes the disks of a new machine and writes its configuration.
func (s *Server) fillNew(t *task, n *node, v *vm, opts map[string]string, storage string) error {
	if err := s.wait(t, s.lat.Create); err != nil {
		return err
	}
	conf, made, err := s.makeDisks(t, n, v.id, opts, storage)
	if err != nil {
		if !errors.Is(err, errKilled) {
			s.free(n, made)
		}
		return err
	}
	for k, text := range conf {
		conf[k] = s.tidy(k, text)
	}
	if _, ok := conf["boot"]; !ok {
		conf["boot"] = bootOrder(conf)
	}
	s.identify(conf)
	conf["meta"] = fmt.Sprintf("creation-qemu=%s,ctime=%d", releases[s.opts.Version].qemu, s.clock.Now().Unix())
	v.conf = conf
	s.publish(v)
	return nil
}

// identify gives a configuration a new SMBIOS uuid and generation.
func (s *Server) identify(conf map[string]string) {
	keys := map[string]string{}
	for part := range strings.SplitSeq(conf["smbios1"], ",") {
		if k, v, ok := strings.Cut(part, "="); ok {
			keys[k] = v
		}
	}
	keys["uuid"] = s.uuid()
	parts := []string{"uuid=" + keys["uuid"]}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if k != "uuid" {
			parts = append(parts, k+"="+keys[k])
		}
	}
	conf["smbios1"] = strings.Join(parts, ",")
	conf["vmgenid"] = s.uuid()
}

// tidy is an option as Proxmox keeps it.
func (s *Server) tidy(key, text string) string {
	switch {
	case key == "tags":
		return tidyTags(text)
	case key == "description":
		return strings.TrimSuffix(text, "\n")
	case strings.HasPrefix(key, "net"):
		return s.netText(text)
	}
	return text
}

// free takes volumes away.
func (s *Server) free(n *node, ids []string) {
	for _, id := range ids {
		sid, _, _ := strings.Cut(id, ":")
		if st := s.stores[sid]; st != nil && st.spaces[n.Name] != nil {
			delete(st.spaces[n.Name].vols, id)
		}
	}
}

// makeDisks makes the disks that options ask for, and completes those that exist. It returns the options as they are kept, and the
// volumes that it made, also when it fails.
func (s *Server) makeDisks(t *task, n *node, vmid int, opts map[string]string, storage string) (map[string]string, []string, error) {
	conf := maps.Clone(opts)
	var made []string
	for _, k := range slices.Sorted(maps.Keys(opts)) {
		if !isDrive(k) {
			continue
		}
		d := parseDrive(opts[k])
		g := newDisk.FindStringSubmatch(d.file)
		switch _, name, _ := strings.Cut(d.file, ":"); {
		case d.file == "none" || d.file == "cdrom":
		case name == "cloudinit":
			d.file = strings.TrimSuffix(d.file, "cloudinit") + fmt.Sprintf("vm-%d-cloudinit,media=cdrom", vmid)
		case g != nil && !d.cdrom():
			sid := g[1]
			if sid == "" {
				sid = storage
			}
			v, err := s.makeDisk(t, n, vmid, k, sid, g[2], d)
			if err != nil {
				return nil, made, err
			}
			made = append(made, v.id)
			d.file, d.opts["size"] = v.id, formatSize(v.size)
			delete(d.opts, "format")
			delete(d.opts, "import-from")
		default:
			v := s.find(d.file, n.Name)
			if v == nil {
				return nil, made, die(fmt.Sprintf("volume '%s' does not exist", d.file))
			}
			d.opts["size"] = formatSize(v.size)
		}
		conf[k] = d.String()
	}
	return conf, made, nil
}

// largest is what the tools for images still accept.
const largest = 8 << 50

// makeDisk makes one disk, empty or from an image file.
func (s *Server) makeDisk(t *task, n *node, vmid int, key, storage, size string, d drive) (*volume, error) {
	st, sp, err := s.enabled(storage, n.Name)
	if err != nil {
		return nil, err
	}
	if st.inactive[n.Name] {
		return nil, die(fmt.Sprintf("storage '%s' is not online", storage))
	}
	v := volume{format: "raw", owner: vmid, size: parseSize(size + "G")}
	if st.files() {
		if v.format = d.opts["format"]; v.format == "" {
			v.format = "raw"
		}
	}
	if key == "efidisk0" {
		v.size = 528 << 10
	}
	if v.size > largest {
		return nil, die("unable to create image: qemu-img: The image size is too large for file format 'raw'")
	}
	if from := d.opts["import-from"]; from != "" {
		src := s.find(from, n.Name)
		if src == nil {
			return nil, die(fmt.Sprintf("volume '%s' does not exist", from))
		}
		v.size, v.used, v.image, v.file = src.size, src.used, src.image, src.file
		if virtual := virtualSize(src.content.bytes()); virtual > 0 {
			v.size = virtual
		}
		if v.size%(1<<10) != 0 {
			v.size += 1<<10 - v.size%(1<<10)
		}
	}
	made, err := s.allocate(t, st, sp, v, "vm", "")
	if err != nil {
		return nil, err
	}
	if d.opts["import-from"] != "" {
		t.say(fmt.Sprintf("importing disk '%s' to VM %d ...", d.opts["import-from"], vmid))
	}
	if err := s.disk(t, s.copying(v.used)); err != nil {
		if !errors.Is(err, errKilled) {
			delete(sp.vols, made.id)
		}
		return nil, err
	}
	return made, nil
}

// copying is how long so many bytes take.
func (s *Server) copying(n int64) time.Duration {
	return time.Duration(float64(s.lat.CopyPerGiB) * float64(n) / (1 << 30))
}

// virtualSize is the size that a qcow2 file's header says; 0 when it is none.
func virtualSize(b []byte) int64 {
	if len(b) < 32 || string(b[:4]) != "QFI\xfb" {
		return 0
	}
	var n int64
	for _, x := range b[24:32] {
		n = n<<8 | int64(x)
	}
	return n
}
