package proxmox

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// machineRow is a machine as its own node tells of it: never stale.
func (c *call) machineRow(v *vm) object {
	row := object{
		"vmid": v.id, "name": v.name(), "status": v.status(), "cpus": v.cpus(), "maxmem": v.memory(), "maxdisk": v.diskSize(), "cpu": 0, "mem": 0, "memhost": 0, "disk": 0,
		"netin": 0, "netout": 0, "uptime": 0,
	}
	if strings.HasPrefix(c.opts.Version, "8.") {
		delete(row, "memhost")
	}
	if v.running {
		row["uptime"], row["pid"] = int64(c.clock.Now().Sub(v.since).Seconds()), 10000+v.id
	}
	if tags := strings.TrimSpace(v.conf["tags"]); tags != "" {
		row["tags"] = tags
	}
	if l := v.conf["lock"]; l != "" {
		row["lock"] = l
	}
	if v.template() {
		row["template"] = 1
	}
	if _, ok := v.conf["serial0"]; ok {
		row["serial"] = 1
	}
	return row
}

func getMachines(c *call) (any, error) {
	out := []object{}
	sees := c.access.viewer(c.who)
	for _, id := range c.sorted() {
		if v := c.vms[id]; v.node == c.node().Name && sees(id) {
			out = append(out, c.machineRow(v))
		}
	}
	return out, nil
}

func getMachineIndex(*call) (any, error) {
	out := []object{}
	for d := range strings.FieldsSeq(`config cloudinit pending status unlink vncproxy termproxy migrate resize move rrd rrddata monitor agent snapshot
		spiceproxy sendkey firewall mtunnel remote_migrate`) {
		out = append(out, object{"subdir": d})
	}
	return out, nil
}

func getStatus(c *call) (any, error) {
	v, err := c.load(c.node(), c.vmid())
	if err != nil {
		return nil, err
	}
	row := c.machineRow(v)
	row["qmpstatus"] = v.status()
	if v.paused {
		row["qmpstatus"] = "paused"
	}
	row["ha"] = object{"managed": number01(v.ha)}
	if v.ha {
		row["ha"] = object{"managed": 1, "state": haState(v)}
	}
	if strings.HasPrefix(v.conf["agent"], "1") || strings.Contains(v.conf["agent"], "enabled=1") {
		row["agent"] = 1
	}
	return row, nil
}

func getConfig(c *call) (any, error) {
	v, err := c.load(c.node(), c.vmid())
	if err != nil {
		return nil, err
	}
	conf := v.shown()
	if c.flag("current") {
		conf = v.conf
	}
	if snap := c.get("snapshot"); snap != "" {
		if conf = v.snaps[snap]; conf == nil {
			return nil, die(fmt.Sprintf("snapshot '%s' does not exist", snap))
		}
	}
	out := object{"digest": v.digest()}
	for k, text := range conf {
		out[k] = c.typed(k, text)
	}
	return out, nil
}

func getPending(c *call) (any, error) {
	v, err := c.load(c.node(), c.vmid())
	if err != nil {
		return nil, err
	}
	out := []object{}
	for _, k := range slices.Sorted(maps.Keys(v.conf)) {
		row := object{"key": k, "value": c.typed(k, v.conf[k])}
		if p, ok := v.pending[k]; ok {
			row["pending"] = c.typed(k, p)
		}
		if v.gone[k] {
			row["delete"] = 1
		}
		out = append(out, row)
	}
	for _, k := range slices.Sorted(maps.Keys(v.pending)) {
		if _, ok := v.conf[k]; !ok {
			out = append(out, object{"key": k, "pending": c.typed(k, v.pending[k])})
		}
	}
	return append(out, object{"key": "digest", "value": v.digest()}), nil
}

func getFeature(c *call) (any, error) {
	v, err := c.load(c.node(), c.vmid())
	if err != nil {
		return nil, err
	}
	has := true
	nodes := []string{}
	for _, d := range volumes(v.conf) {
		sid, _, _ := strings.Cut(d.file, ":")
		if st := c.stores[sid]; st == nil || !st.linked() {
			has = false
		}
	}
	for _, n := range c.order {
		nodes = append(nodes, n.Name)
	}
	return object{"hasFeature": number01(has), "nodes": nodes}, nil
}

func askGuestAgent(c *call) (any, error) {
	v, err := c.load(c.node(), c.vmid())
	if err != nil {
		return nil, err
	}
	if !v.running {
		return nil, die(fmt.Sprintf("VM %d is not running", v.id))
	}
	if v.conf["agent"] == "" || strings.HasPrefix(v.conf["agent"], "0") {
		return nil, die("No QEMU guest agent configured")
	}
	return nil, die("QEMU guest agent is not running")
}

// qemuMigrate is POST …/migrate, of a machine that is off and whose disks are shared.
func qemuMigrate(c *call) (any, error) {
	target := c.nodes[c.get("target")]
	v, err := c.load(c.node(), c.vmid())
	switch {
	case c.get("target") == c.node().Name:
		return nil, wrongField("target", "target is local node.")
	case target == nil:
		return nil, die(fmt.Sprintf("no such cluster node '%s'", c.get("target")))
	case err != nil:
		return nil, err
	}
	if err := v.checkLock(); err != nil {
		return nil, err
	}
	if v.running && !c.flag("online") {
		return nil, die("can't migrate running VM without --online")
	}
	who := c.who
	return c.begin("qmigrate", strconv.Itoa(v.id), func(t *task) error {
		return c.locked(t.ctx, t, v.id, false, lockOther, func() error {
			if err := c.disk(t, c.lat.CopyPerGiB); err != nil {
				return err
			}
			if err := c.move(v, target); err != nil {
				return err
			}
			c.change(v, who, "migrate", t.upid)
			return nil
		})
	})
}

// move takes a machine to another node, and its disks when they are not shared.
func (s *Server) move(v *vm, target *node) error {
	for _, d := range volumes(v.conf) {
		sid, _, _ := strings.Cut(d.file, ":")
		st, vol := s.stores[sid], s.find(d.file, v.node)
		if st == nil || vol == nil || st.Shared {
			continue
		}
		if st.spaces[target.Name] == nil {
			return die(fmt.Sprintf("storage '%s' is not available on node '%s'", sid, target.Name))
		}
		delete(st.spaces[v.node].vols, d.file)
		vol.parent = "" // a copy stands on nothing
		st.spaces[target.Name].vols[d.file] = vol
	}
	v.node = target.Name
	s.publish(v)
	return nil
}
