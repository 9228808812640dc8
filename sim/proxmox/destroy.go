package proxmox

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// qemuDestroy is DELETE /nodes/{node}/qemu/{vmid}.
func qemuDestroy(c *call) (any, error) {
	if err := c.rootOnly("skiplock"); err != nil {
		return nil, err
	}
	id, n, who, purge := c.vmid(), c.node(), c.who, c.flag("purge")
	check := func() (*vm, error) {
		v, err := c.load(n, id)
		switch {
		case err != nil:
			return nil, err
		case v.conf["protection"] == "1":
			return nil, die(fmt.Sprintf("can't remove VM %d - protection mode enabled", id))
		case v.ha && !purge:
			return nil, die(fmt.Sprintf("unable to remove VM %d - used in HA resources and purge parameter not set.", id))
		case v.running:
			return nil, die(fmt.Sprintf("VM %d is running - destroy failed", id))
		}
		return v, nil
	}
	if _, err := check(); err != nil {
		return nil, err
	}
	unreferenced := c.flag("destroy-unreferenced-disks")
	return c.begin("qmdestroy", strconv.Itoa(id), func(t *task) error {
		return c.locked(t.ctx, t, id, false, lockOther, func() error {
			v, err := check()
			if err != nil {
				return err
			}
			if err := v.checkLock(); err != nil {
				return err
			}
			if err := c.destroy(t, n, v, unreferenced); err != nil {
				return err
			}
			c.change(v, who, "destroy", t.upid)
			return nil
		})
	})
}

// destroy takes a machine's disks and its configuration away.
func (s *Server) destroy(t *task, n *node, v *vm, unreferenced bool) error {
	vols := volumes(v.conf)
	for k := range vols {
		if err := s.inUse(n, vols[k].file); err != nil {
			return err
		}
	}
	if err := s.disk(t, s.lat.Destroy); err != nil {
		var f *fail
		if !errors.As(err, &f) {
			return err
		}
		t.warn("Could not remove disk: " + f.text)
	}
	for _, k := range slices.Sorted(maps.Keys(vols)) {
		file := vols[k].file
		name, err := s.volume(file)
		if err != nil || name.owner != v.id || s.find(file, n.Name) == nil {
			continue
		}
		if st := s.stores[name.storage]; st.inactive[n.Name] {
			t.warn(fmt.Sprintf("Could not remove disk '%s', check manually: storage '%s' is not online", file, name.storage))
			continue
		}
		s.free(n, []string{file})
	}
	if unreferenced { // everything that wears the number, whoever's it is
		for _, st := range s.stores {
			if sp := st.spaces[n.Name]; sp != nil {
				maps.DeleteFunc(sp.vols, func(_ string, vol *volume) bool { return vol.vtype == "images" && vol.owner == v.id })
			}
		}
	}
	delete(s.vms, v.id)
	delete(s.access.acl, fmt.Sprintf("/vms/%d", v.id))
	for _, p := range s.access.pools {
		delete(p.vms, v.id)
	}
	s.touch()
	return nil
}

// inUse says that a base volume still has linked clones.
func (s *Server) inUse(n *node, id string) error {
	sid, _, _ := strings.Cut(id, ":")
	if st := s.stores[sid]; st != nil && st.spaces[n.Name] != nil {
		for _, v := range st.spaces[n.Name].vols {
			if v.parent == id {
				return die(fmt.Sprintf("base volume '%s' is still in use by linked cloned", id))
			}
		}
	}
	return nil
}
