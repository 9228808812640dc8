package proxmox

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Console is a human with root's rights at the cluster's console: what is done there asks for no privilege, waits for no lock, takes
// no time, and is in the audit as Human.
type Console struct{ s *Server }

// Console is the console.
func (s *Server) Console() *Console { return &Console{s} }

// Machine is a machine as it is, without lag.
type Machine struct {
	VMID     int
	Node     string
	Name     string
	Running  bool
	Paused   bool
	Template bool
	Lock     string
	Pool     string
	HA       bool
	Maker    string            // the user or token that made it, or Human
	Config   map[string]string // what its file says
	Pending  map[string]string
	File     string // the file
}

func (c *Console) do(work func() error) error {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return work()
}

func (c *Console) with(vmid int, action string, work func(*vm) error) error {
	return c.do(func() error {
		v := c.s.vms[vmid]
		if v == nil {
			return fmt.Errorf("cannot %s machine %d: there is none", action, vmid)
		}
		if err := work(v); err != nil {
			return err
		}
		if c.s.vms[vmid] == v {
			c.s.publish(v)
		}
		c.s.change(v, Human, action, "")
		return nil
	})
}

// Machines are all machines, by number.
func (c *Console) Machines() []Machine {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	pools := c.s.poolIndex()
	out := make([]Machine, 0, len(c.s.vms))
	for _, id := range c.s.sorted() {
		out = append(out, c.s.vms[id].view(pools[id]))
	}
	return out
}

func (v *vm) view(pool string) Machine {
	return Machine{
		VMID: v.id, Node: v.node, Name: v.name(), Running: v.running, Paused: v.paused, Template: v.template(), Lock: v.conf["lock"], Pool: pool, HA: v.ha,
		Maker: v.by, Config: maps.Clone(v.conf), Pending: maps.Clone(v.pending), File: v.text(),
	}
}

// Machine is one machine; false when there is none.
func (c *Console) Machine(vmid int) (Machine, bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	v := c.s.vms[vmid]
	if v == nil {
		return Machine{}, false
	}
	return v.view(c.s.access.poolOf(vmid)), true
}

// Create makes a machine. Its configuration is as in its file; disks are made by "storage:GiB".
func (c *Console) Create(node string, vmid int, conf map[string]string) error {
	return c.do(func() error {
		n := c.s.nodes[node]
		switch {
		case n == nil:
			return fmt.Errorf("cannot create machine %d: there is no node %s", vmid, node)
		case c.s.vms[vmid] != nil:
			return fmt.Errorf("cannot create machine %d: there is one", vmid)
		}
		c.s.foreign(n, vmid, conf)
		return nil
	})
}

// foreign makes a human's machine. Called under mu.
func (s *Server) foreign(n *node, vmid int, conf map[string]string) {
	v := newVM(vmid, n, Human, map[string]string{})
	for k, text := range conf {
		if d := parseDrive(text); isDrive(k) {
			if g := newDisk.FindStringSubmatch(d.file); g != nil && s.stores[g[1]] != nil && s.stores[g[1]].spaces[n.Name] != nil {
				st := s.stores[g[1]]
				vol := &volume{storage: st.ID, vtype: "images", format: "raw", owner: vmid, size: parseSize(g[2] + "G"), created: s.clock.Now(), identity: s.uuid()}
				if st.files() && d.opts["format"] != "" {
					vol.format = d.opts["format"]
				}
				prefix := "vm"
				if conf["template"] == "1" {
					prefix = "base"
				}
				for i := 0; vol.id == "" || st.spaces[n.Name].vols[vol.id] != nil; i++ {
					vol.id = st.imageName(prefix, vmid, i, vol.format, "")
				}
				st.spaces[n.Name].vols[vol.id] = vol
				delete(d.opts, "format")
				d.file, d.opts["size"] = vol.id, formatSize(vol.size)
				text = d.String()
			}
		}
		v.conf[k] = s.tidy(k, text)
	}
	if v.conf["smbios1"] == "" {
		s.identify(v.conf)
	}
	s.vms[vmid] = v
	s.publish(v)
	s.change(v, Human, "create", "")
}

// Set sets an option of a machine, whatever it is; also a lock.
func (c *Console) Set(vmid int, key, text string) error {
	return c.with(vmid, "config", func(v *vm) error {
		c.s.put(v, key, c.s.tidy(key, text))
		return nil
	})
}

// Unset takes an option away: Unset(id, "lock") is qm unlock.
func (c *Console) Unset(vmid int, key string) error {
	return c.with(vmid, "config", func(v *vm) error {
		c.s.drop(v, key)
		if key == "lock" {
			delete(v.conf, key)
		}
		return nil
	})
}

// Start starts a machine.
func (c *Console) Start(vmid int) error {
	c.s.mu.Lock()
	v := c.s.vms[vmid]
	if v == nil {
		c.s.mu.Unlock()
		return fmt.Errorf("cannot start machine %d: there is none", vmid)
	}
	hw, disk, err := c.s.hardware(c.s.nodes[v.node], v)
	c.s.mu.Unlock()
	if err != nil {
		return err
	}
	g, err := c.s.driver.Start(c.s.ctx, hw)
	if err != nil {
		return fmt.Errorf("cannot start machine %d: %w", vmid, err)
	}
	return c.with(vmid, "start", func(v *vm) error {
		if disk != nil {
			disk.booted = true
		}
		v.guest, v.running, v.since = g, true, c.s.clock.Now()
		c.s.watch(v, g)
		return nil
	})
}

// Stop takes the power of a machine away.
func (c *Console) Stop(vmid int) error {
	return c.with(vmid, "stop", func(v *vm) error {
		c.s.poweroff(v)
		return nil
	})
}

// Delete takes a machine away, with its disks, whatever it does.
func (c *Console) Delete(vmid int) error {
	return c.with(vmid, "destroy", func(v *vm) error {
		c.s.poweroff(v)
		n := c.s.nodes[v.node]
		for _, d := range volumes(v.conf) {
			c.s.free(n, []string{d.file})
		}
		delete(c.s.vms, vmid)
		for _, p := range c.s.access.pools {
			delete(p.vms, vmid)
		}
		delete(c.s.access.acl, fmt.Sprintf("/vms/%d", vmid))
		return nil
	})
}

// Migrate takes a machine to another node.
func (c *Console) Migrate(vmid int, node string) error {
	return c.with(vmid, "migrate", func(v *vm) error {
		if c.s.nodes[node] == nil {
			return fmt.Errorf("cannot migrate machine %d: there is no node %s", vmid, node)
		}
		return c.s.move(v, c.s.nodes[node])
	})
}

// SetHA puts a machine under the HA manager, or takes it from there.
func (c *Console) SetHA(vmid int, on bool) error {
	return c.with(vmid, "ha", func(v *vm) error {
		v.ha = on
		return nil
	})
}

// Snapshot takes a snapshot of a machine's configuration.
func (c *Console) Snapshot(vmid int, name string) error {
	return c.with(vmid, "snapshot", func(v *vm) error {
		v.snaps[name] = maps.Clone(v.conf)
		return nil
	})
}

// Volumes are the ids of the volumes on a storage as a node sees it.
func (c *Console) Volumes(node, storage string) []string {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	st := c.s.stores[storage]
	if st == nil || st.spaces[node] == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(st.spaces[node].vols))
}

// Content is what is in a volume that is a file.
func (c *Console) Content(node, volume string) ([]byte, bool) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if v := c.s.find(volume, node); v != nil {
		return v.content.bytes(), true
	}
	return nil, false
}

// Put puts a file (storage:iso/name or storage:import/name) onto a storage.
func (c *Console) Put(node, id string, data []byte) error {
	return c.do(func() error {
		name, err := c.s.volume(id)
		if err != nil {
			return err
		}
		sp := c.s.stores[name.storage].spaces[node]
		if sp == nil {
			return fmt.Errorf("cannot put %s: its storage is not on node %s", id, node)
		}
		v := &volume{
			id: id, storage: name.storage, vtype: name.vtype, format: name.format, size: int64(len(data)), used: int64(len(data)), created: c.s.clock.Now(),
			identity: c.s.uuid(), content: c.s.keep(strings.ReplaceAll(name.name, "/", "-"), data),
		}
		v.image, v.file = v.content.sum, v.content.path
		sp.vols[id] = v
		return nil
	})
}

// Remove takes a volume away.
func (c *Console) Remove(node, volume string) {
	_ = c.do(func() error {
		c.s.free(c.s.nodes[node], []string{volume})
		return nil
	})
}

// Fill makes all but so many bytes of a storage something else's.
func (c *Console) Fill(node, storage string, free int64) {
	_ = c.do(func() error {
		sp := c.s.stores[storage].spaces[node]
		sp.other = 0
		sp.other = max(sp.total-sp.used()-free, 0)
		return nil
	})
}

// SetActive says whether a storage can be reached on a node.
func (c *Console) SetActive(node, storage string, active bool) {
	_ = c.do(func() error {
		c.s.stores[storage].inactive[node] = !active
		return nil
	})
}

// SetOffline makes a node not answer: reason is the text of the 595, "Connection timed out" waits for half a minute and is a 596,
// empty is online again.
func (c *Console) SetOffline(node, reason string) {
	_ = c.do(func() error {
		c.s.nodes[node].offline = reason
		c.s.touch()
		return nil
	})
}

// SetDaemon stops pvedaemon on a node, or starts it: pveproxy still answers what it answers by itself.
func (c *Console) SetDaemon(node string, up bool) {
	_ = c.do(func() error {
		c.s.nodes[node].daemon = !up
		return nil
	})
}

// SetQuorum stops the cluster's file system, or starts it.
func (c *Console) SetQuorum(up bool) {
	_ = c.do(func() error {
		c.s.pmxcfs = !up
		return nil
	})
}

// SetSkew makes the nodes' clocks wrong, as their answers' Date shows.
func (c *Console) SetSkew(d time.Duration) {
	_ = c.do(func() error {
		c.s.skew = d
		return nil
	})
}

// Slow makes the disks of a node so many times slower.
func (c *Console) Slow(node string, factor float64) {
	_ = c.do(func() error {
		c.s.nodes[node].slow = factor
		return nil
	})
}

// SetSpool says how much room (bytes) a node has for uploads on their way.
func (c *Console) SetSpool(node string, free int64) {
	_ = c.do(func() error {
		c.s.nodes[node].spoolFree = free
		return nil
	})
}

// Leftovers are what broken uploads have left in /var/tmp of a node.
func (c *Console) Leftovers(node string) []string {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return slices.Clone(c.s.nodes[node].leftovers)
}

// KillWorkers kills the workers of running tasks of a kind (empty: all), as a node that loses power does. It says how many.
func (c *Console) KillWorkers(kind string) int {
	n := 0
	_ = c.do(func() error {
		for _, t := range c.s.tasks {
			if t.exit == "" && (kind == "" || t.kind == kind) {
				t.stop = errKilled
				t.cancel()
				n++
			}
		}
		return nil
	})
	return n
}

// Running is how many tasks run.
func (c *Console) Running() int {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	n := 0
	for _, t := range c.s.tasks {
		n += number01(t.exit == "")
	}
	return n
}

// Exit is how a task has ended, and its log; empty while it runs.
func (c *Console) Exit(upid string) (string, []string) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if t := c.s.tasks[upid]; t != nil {
		return t.exit, slices.Clone(t.log)
	}
	return "", nil
}

// Now is the cluster's time.
func (c *Console) Now() time.Time { return c.s.clock.Now() }
