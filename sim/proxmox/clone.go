package proxmox

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// cloning is what a clone has found out before it begins.
type cloning struct {
	n            *node
	src          *vm
	conf         map[string]string // of the source or its snapshot
	newid        int
	full         bool
	target       *node
	storage      string
	format       string
	name, desc   string
	named, noted bool
	pool         string
}

// qemuClone is POST /nodes/{node}/qemu/{vmid}/clone.
func qemuClone(c *call) (any, error) {
	n := c.node()
	k := &cloning{
		n: n, newid: atoi(c.get("newid")), storage: c.get("storage"), format: c.get("format"), pool: c.get("pool"),
		name: c.get("name"), desc: c.get("description"), named: c.has("name"), noted: c.has("description"),
	}
	if err := c.access.poolExists(k.pool); err != nil {
		return nil, err
	}
	if err := c.cloneTarget(k); err != nil {
		return nil, err
	}
	src := c.vmid()
	if err := c.checkClone(k, src, false); err != nil {
		return nil, err
	}
	return c.begin("qmclone", strconv.Itoa(src), func(t *task) error {
		return c.locked(t.ctx, t, src, !k.src.running, lockClone, func() error {
			return c.locked(t.ctx, t, k.newid, false, lockClone, func() error {
				if err := c.checkClone(k, src, true); err != nil {
					return err
				}
				return c.cloneNow(t, k)
			})
		})
	})
}

func (c *call) cloneTarget(k *cloning) error {
	if t := c.get("target"); t != "" && t != k.n.Name && t != "localhost" {
		if k.target = c.nodes[t]; k.target == nil {
			return die(fmt.Sprintf("no such cluster node '%s'", t))
		}
	}
	if k.storage == "" {
		return nil
	}
	if _, _, err := c.enabled(k.storage, k.n.Name); err != nil {
		return err
	}
	if k.target != nil {
		st, _, err := c.enabled(k.storage, k.target.Name)
		if err != nil {
			return err
		}
		if !st.Shared {
			return die(fmt.Sprintf("can't clone to non-shared storage '%s'", k.storage))
		}
	}
	return nil
}

// checkClone is done before the worker begins, and again in it. The worker has the privileges that there were when it began.
func (c *call) checkClone(k *cloning, vmid int, worker bool) error {
	src, err := c.load(k.n, vmid)
	if err != nil {
		return notFound(k.n, vmid)
	}
	if err := src.checkLock(); err != nil {
		return err
	}
	k.src, k.conf = src, src.conf
	if snap := c.get("snapname"); snap != "" {
		if k.conf = src.snaps[snap]; k.conf == nil {
			return die(fmt.Sprintf("snapshot '%s' does not exist", snap))
		}
	}
	k.full = !src.template()
	if c.has("full") {
		k.full = c.flag("full")
	}
	if k.storage != "" && !k.full {
		return die("parameter 'storage' not allowed for linked clones")
	}
	if k.format != "" && !k.full {
		return die("parameter 'format' not allowed for linked clones")
	}
	shared := true
	vols := volumes(k.conf)
	for _, key := range slices.Sorted(maps.Keys(vols)) {
		sid, _, _ := strings.Cut(vols[key].file, ":")
		if k.storage != "" {
			sid = k.storage
		}
		if err := c.access.check(c.who, "/storage/"+sid, "Datastore.AllocateSpace"); err != nil && !worker {
			return err
		}
		shared = shared && c.stores[sid] != nil && c.stores[sid].Shared
	}
	if err := c.checkBridges(c.who, k.conf); err != nil && !worker {
		return err
	}
	if k.target != nil && !shared {
		return die(fmt.Sprintf("can't clone VM to node '%s' (VM uses local storage)", k.target.Name))
	}
	if v := c.vms[k.newid]; v != nil && v.node == k.n.Name {
		return die(fmt.Sprintf("unable to create VM %d: config file already exists", k.newid))
	}
	if k.full {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(vols)) {
		sid, name, _ := strings.Cut(vols[key].file, ":")
		base := strings.Contains(name[strings.LastIndex(name, "/")+1:], "base-")
		if !strings.HasPrefix(key, "unused") && (!base || !c.stores[sid].linked()) {
			return die(fmt.Sprintf("Linked clone feature is not supported for '%s' (%s)", vols[key].file, key))
		}
	}
	return nil
}

// cloneNow makes the clone. While it runs there is only a lock; a worker that is killed leaves it.
func (c *call) cloneNow(t *task, k *cloning) error {
	if v := c.vms[k.newid]; v != nil { // on another node: only the cluster's file system knows
		return die(fmt.Sprintf("close (rename) atomic file '/etc/pve/nodes/%s/qemu-server/%d.conf' failed: File exists", k.n.Name, k.newid))
	}
	v := newVM(k.newid, k.n, c.who, map[string]string{"lock": "clone", "description": " qmclone temporary file"})
	c.vms[v.id] = v
	c.publish(v)
	c.change(v, c.who, "clone begins", t.upid)
	conf, made, err := c.cloneDisks(t, k)
	if err == nil && k.target != nil && c.vms[k.newid] == v {
		v.node = k.target.Name
	}
	if err != nil {
		if errors.Is(err, errKilled) {
			return err
		}
		c.free(k.n, made)
		delete(c.vms, v.id)
		c.change(v, c.who, "clone failed", t.upid)
		return die("clone failed: " + text(err))
	}
	if c.vms[v.id] != v { // somebody at the console took the file away
		c.free(k.n, made)
		return die(fmt.Sprintf("clone failed: Configuration file 'nodes/%s/qemu-server/%d.conf' does not exist", k.n.Name, v.id))
	}
	v.conf = conf
	if p := c.access.pools[k.pool]; p != nil {
		p.vms[v.id] = true
	}
	c.publish(v)
	c.change(v, c.who, "clone", t.upid)
	return nil
}

// cloneDisks copies or links the source's disks, and makes the clone's configuration: everything is inherited, but what would
// make two machines one.
func (c *call) cloneDisks(t *task, k *cloning) (map[string]string, []string, error) {
	conf := maps.Clone(k.conf)
	for _, gone := range []string{"template", "snaptime", "parent", "vmstate", "lock"} {
		delete(conf, gone)
	}
	for key := range conf {
		if strings.HasPrefix(key, "unused") {
			delete(conf, key)
		}
	}
	var made []string
	vols := volumes(conf)
	for _, key := range slices.Sorted(maps.Keys(vols)) {
		d := vols[key]
		v, err := c.cloneDisk(t, k, key, d)
		if v != nil {
			made = append(made, v.id)
		}
		if err != nil {
			return nil, made, err
		}
		d.file, d.opts["size"] = v.id, formatSize(v.size)
		conf[key] = d.String()
	}
	for key, text := range conf {
		if strings.HasPrefix(key, "net") {
			model, rest, more := strings.Cut(text, ",")
			model, _, _ = strings.Cut(model, "=")
			conf[key] = model + "=" + c.mac()
			if more {
				conf[key] += "," + rest
			}
		}
	}
	c.identify(conf)
	switch {
	case k.named:
		conf["name"] = k.name
	case conf["name"] != "":
		conf["name"] = "Copy-of-VM-" + conf["name"]
	default:
		conf["name"] = fmt.Sprintf("Copy-of-VM-%d", k.src.id)
	}
	if k.noted {
		conf["description"] = strings.TrimSuffix(k.desc, "\n")
		if conf["description"] == "" {
			delete(conf, "description")
		}
	}
	return conf, made, nil
}

func (c *call) cloneDisk(t *task, k *cloning, key string, d drive) (*volume, error) {
	src := c.find(d.file, k.n.Name)
	if src == nil {
		return nil, die(fmt.Sprintf("volume '%s' does not exist", d.file))
	}
	sid, base, _ := strings.Cut(d.file, ":")
	v := volume{format: src.format, owner: k.newid, size: src.size, image: src.image, file: src.file, booted: src.booted}
	if !k.full {
		st, sp, err := c.enabled(sid, k.n.Name)
		if err != nil {
			return nil, err
		}
		t.say(fmt.Sprintf("create linked clone of drive %s (%s)", key, d.file))
		v.parent, v.used = src.id, 200<<10
		if st.files() {
			v.format = "qcow2"
		}
		base = base[strings.LastIndex(base, ":")+1:]
		made, err := c.allocate(t, st, sp, v, "vm", base)
		if err != nil {
			return made, err
		}
		return made, c.disk(t, c.lat.CloneLinked)
	}
	if k.storage != "" {
		sid = k.storage
	}
	st, sp, err := c.enabled(sid, k.n.Name)
	if err != nil {
		return nil, err
	}
	t.say(fmt.Sprintf("create full clone of drive %s (%s)", key, d.file))
	v.used = max(src.used, 200<<10)
	if src.parent != "" {
		if p := c.find(src.parent, k.n.Name); p != nil {
			v.used += p.used
		}
	}
	if !st.files() {
		v.format = "raw"
	} else if k.format != "" {
		v.format = k.format
	}
	made, err := c.allocate(t, st, sp, v, "vm", "")
	if err != nil {
		return made, c.copyFailed(t, err, src, &v)
	}
	took := c.copying(v.size)
	if limit := atoi(c.get("bwlimit")); limit > 0 { // KiB a second
		took = max(took, c.throttled(v.size, int64(limit)))
	}
	return made, c.copyFailed(t, c.disk(t, took), src, made)
}

// copyFailed is how a copy fails: what was wrong stands only in the log.
func (c *call) copyFailed(t *task, err error, src, dst *volume) error {
	how := "interrupted by signal"
	switch {
	case err == nil || errors.Is(err, errKilled):
		return err
	case errors.Is(err, errInterrupted):
	case strings.Contains(err.Error(), "No space left"):
		t.say("qemu-img: error while writing at byte 0: No space left on device")
		how = "exit code 1"
	default:
		return err
	}
	rate := ""
	if limit := c.get("bwlimit"); limit != "" {
		rate = " -r " + limit + "K"
	}
	to := ""
	if dst.id != "" {
		to = " zeroinit:" + c.path(dst)
	}
	return die(fmt.Sprintf("copy failed: command '/usr/bin/qemu-img convert -p -n%s -f %s -O %s %s%s' failed: %s", rate, src.format, dst.format, c.path(src), to, how))
}
