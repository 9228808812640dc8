package proxmox

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// startTask begins the start of a machine.
func (s *Server) startTask(n *node, id int, who string) {
	s.fork(n, "qmstart", strconv.Itoa(id), who, func(t *task) error { return s.start(t, n, id, who) })
}

// qemuStart is POST …/status/start.
func qemuStart(c *call) (any, error) {
	if err := c.rootOnly("skiplock", "stateuri", "migratedfrom", "migration_type", "migration_network"); err != nil {
		return nil, err
	}
	id, n, who := c.vmid(), c.node(), c.who
	if v := c.vms[id]; v != nil && v.ha && v.node == n.Name {
		return c.begin("hastart", strconv.Itoa(id), func(t *task) error {
			t.say(fmt.Sprintf("Requesting HA start for VM %d", id))
			c.startTask(n, id, rootUser)
			return nil
		})
	}
	return c.begin("qmstart", strconv.Itoa(id), func(t *task) error { return c.start(t, n, id, who) })
}

func (c *call) rootOnly(names ...string) error {
	for _, k := range names {
		if c.has(k) && c.who != rootUser {
			return wrongField(k, "Only root may use this option.")
		}
	}
	return nil
}

// start gives a machine power.
func (s *Server) start(t *task, n *node, id int, who string) error {
	return s.locked(t.ctx, t, id, false, lockOther, func() error {
		v, err := s.load(n, id)
		if err != nil {
			return err
		}
		if v.template() {
			return die("you can't start a vm if it's a template")
		}
		if err := v.checkLock(); err != nil {
			return err
		}
		if v.running {
			return die(fmt.Sprintf("VM %d already running", id))
		}
		s.settlePending(v)
		hw, disk, err := s.hardware(n, v)
		if err != nil {
			return err
		}
		if err := s.wait(t, s.lat.Start); err != nil {
			return err
		}
		s.mu.Unlock()
		g, err := s.driver.Start(s.ctx, hw)
		s.mu.Lock()
		if err != nil {
			return die("start failed: " + err.Error())
		}
		if disk != nil {
			disk.booted = true
		}
		v.guest, v.running, v.since = g, true, s.clock.Now()
		s.watch(v, g)
		s.publish(v)
		s.change(v, who, "start", t.upid)
		return nil
	})
}

// hardware is a machine as its driver sees it. Everything attached must be there.
func (s *Server) hardware(n *node, v *vm) (VM, *volume, error) {
	hw := VM{VMID: v.id, Name: v.name(), Node: n.Name, Cores: int(v.cpus()), MemoryMB: v.memory() >> 20}
	if _, rest, ok := strings.Cut(v.conf["smbios1"], "uuid="); ok {
		hw.UUID, _, _ = strings.Cut(rest, ",")
	}
	var first *volume
	for _, k := range slices.Sorted(maps.Keys(v.conf)) {
		if strings.HasPrefix(k, "net") {
			nic, _, _ := strings.Cut(v.conf[k], ",")
			_, mac, _ := strings.Cut(nic, "=")
			hw.MACs = append(hw.MACs, mac)
			if b := bridges(v.conf)[k]; b != "" && !n.bridge(b) {
				return hw, nil, die(fmt.Sprintf("bridge '%s' does not exist", b))
			}
		}
		if !isDrive(k) {
			continue
		}
		d := parseDrive(v.conf[k])
		if d.file == "none" || d.file == "cdrom" || strings.Contains(d.file, "-cloudinit") {
			continue
		}
		sid, _, _ := strings.Cut(d.file, ":")
		if st := s.stores[sid]; st != nil && st.inactive[n.Name] {
			return hw, nil, die(fmt.Sprintf("storage '%s' is not online", sid))
		}
		vol := s.find(d.file, n.Name)
		switch {
		case vol == nil:
			return hw, nil, die(fmt.Sprintf("volume '%s' does not exist", d.file))
		case d.cdrom():
			hw.ISO = vol.content.bytes()
		case first == nil && k != "efidisk0" && k != "tpmstate0":
			first = vol
			hw.Disk = Disk{Volume: vol.id, Bytes: vol.size, Image: vol.image, ImageFile: vol.file, Fresh: !vol.booted, Identity: vol.identity}
		}
	}
	return hw, first, nil
}

// watch notices that a machine has powered itself off: it is stopped then, and there is no task.
func (s *Server) watch(v *vm, g Guest) {
	s.wg.Go(func() {
		select {
		case <-g.Done():
		case <-s.ctx.Done():
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.off(v, g)
	})
}

// off is a machine without power, whoever took it.
func (s *Server) off(v *vm, g Guest) {
	if v.guest != g {
		return
	}
	v.guest, v.running, v.paused, v.since = nil, false, false, time.Time{}
	s.publish(v)
}

// poweroff takes the power of a machine away and waits for it to be off.
func (s *Server) poweroff(v *vm) {
	g := v.guest
	if g == nil {
		return
	}
	g.Kill()
	s.mu.Unlock()
	select {
	case <-g.Done():
	case <-s.ctx.Done():
	}
	s.mu.Lock()
	s.off(v, g)
}

// qemuStop is POST …/status/stop.
func qemuStop(c *call) (any, error) {
	if err := c.rootOnly("skiplock", "migratedfrom"); err != nil {
		return nil, err
	}
	id, n, who := c.vmid(), c.node(), c.who
	kind := "qmstop"
	if v := c.vms[id]; v != nil && v.ha && v.node == n.Name {
		kind = "hastop"
	}
	return c.begin(kind, strconv.Itoa(id), func(t *task) error {
		if kind == "hastop" {
			t.say(fmt.Sprintf("Requesting HA stop for VM %d", id))
		}
		return c.locked(t.ctx, t, id, false, lockOther, func() error {
			v, err := c.load(n, id)
			if err != nil {
				return notFound(n, id)
			}
			if !v.running { // nothing to do, even when it is locked
				return nil
			}
			if err := v.checkLock(); err != nil {
				return err
			}
			if err := c.wait(t, c.lat.Stop); err != nil {
				return err
			}
			c.poweroff(v)
			c.change(v, who, "stop", t.upid)
			return nil
		})
	})
}

// shutdownWait is how long a guest gets unless it is said.
const shutdownWait = 180

// qemuShutdown is POST …/status/shutdown.
func qemuShutdown(c *call) (any, error) {
	if err := c.rootOnly("skiplock"); err != nil {
		return nil, err
	}
	id, n, who, force := c.vmid(), c.node(), c.who, c.flag("forceStop")
	limit := shutdownWait
	if c.has("timeout") {
		limit = atoi(c.get("timeout"))
	}
	return c.begin("qmshutdown", strconv.Itoa(id), func(t *task) error {
		return c.locked(t.ctx, t, id, false, lockOther, func() error {
			v, err := c.load(n, id)
			if err != nil {
				return notFound(n, id)
			}
			if !v.running {
				return nil
			}
			if err := v.checkLock(); err != nil {
				return err
			}
			g := v.guest
			if !v.paused {
				c.mu.Unlock()
				g.Shutdown()
				c.mu.Lock()
			}
			until := c.clock.Now().Add(time.Duration(float64(limit) * float64(time.Second) * c.opts.Scale))
			for !gone(g) && c.clock.Now().Before(until) {
				if err := c.wait(t, 250*time.Millisecond); err != nil {
					return err
				}
			}
			switch {
			case gone(g):
				c.off(v, g)
			case force:
				t.say("VM quit/powerdown failed - terminating now with SIGTERM")
				c.poweroff(v)
			default:
				return die("VM quit/powerdown failed - got timeout")
			}
			c.change(v, who, "shutdown", t.upid)
			return nil
		})
	})
}

func gone(g Guest) bool {
	select {
	case <-g.Done():
		return true
	default:
		return false
	}
}

// running is a machine that runs, for the calls that say at once that it does not.
func (c *call) running() (*vm, error) {
	v, err := c.load(c.node(), c.vmid())
	if err != nil {
		return nil, notFound(c.node(), c.vmid())
	}
	if !v.running {
		return nil, die(fmt.Sprintf("VM %d not running", v.id))
	}
	return v, nil
}

// qemuSignal is reset, suspend and resume.
func qemuSignal(kind string) handler {
	return func(c *call) (any, error) {
		if err := c.rootOnly("skiplock"); err != nil {
			return nil, err
		}
		if c.flag("todisk") {
			return nil, die("suspending to disk is not simulated")
		}
		v, err := c.running()
		if err != nil {
			return nil, err
		}
		who := c.who
		return c.begin(kind, strconv.Itoa(v.id), func(t *task) error {
			return c.locked(t.ctx, t, v.id, false, lockOther, func() error {
				if err := v.checkLock(); err != nil && kind != "qmresume" {
					return err
				}
				v.paused = kind == "qmpause" || kind == "qmreset" && v.paused
				c.change(v, who, strings.TrimPrefix(kind, "qm"), t.upid)
				return nil
			})
		})
	}
}

// qemuReboot is POST …/status/reboot: a shutdown, and a start.
func qemuReboot(c *call) (any, error) {
	v, err := c.running()
	if err != nil {
		return nil, err
	}
	n, who := c.node(), c.who
	return c.begin("qmreboot", strconv.Itoa(v.id), func(t *task) error {
		g := v.guest
		c.mu.Unlock()
		g.Shutdown()
		c.mu.Lock()
		for waited := time.Duration(0); !gone(g) && waited < shutdownWait*time.Second; waited += time.Second {
			if err := c.wait(t, time.Second); err != nil {
				return err
			}
		}
		if !gone(g) {
			return die("VM quit/powerdown failed - got timeout")
		}
		c.off(v, g)
		return c.start(t, n, v.id, who)
	})
}
