package proxmox

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

func (c *call) poolMembers(p *pool) []object {
	out := []object{}
	if kind := c.get("type"); kind == "" || kind == "qemu" {
		for _, id := range slices.Sorted(maps.Keys(p.vms)) {
			if v := c.vms[id]; v != nil {
				out = append(out, c.resource(v, ""))
			}
		}
	}
	if kind := c.get("type"); kind == "" || kind == "storage" {
		for _, id := range slices.Sorted(maps.Keys(p.storages)) {
			for _, n := range c.order {
				if st := c.stores[id]; st != nil && st.spaces[n.Name] != nil {
					out = append(out, c.storageResource(n, st))
				}
			}
		}
	}
	return out
}

func getPools(c *call) (any, error) {
	out := []object{}
	want := c.get("poolid")
	if want != "" {
		p := c.access.pools[want]
		if p == nil {
			return nil, die(fmt.Sprintf("pool '%s' does not exist", want))
		}
		row := object{"poolid": want, "members": c.poolMembers(p)}
		if p.comment != "" {
			row["comment"] = p.comment
		}
		return append(out, row), nil
	}
	for _, id := range slices.Sorted(maps.Keys(c.access.pools)) {
		if !c.access.has(c.who, "/pool/"+id, "Pool.Audit") {
			continue
		}
		row := object{"poolid": id}
		if p := c.access.pools[id]; p.comment != "" {
			row["comment"] = p.comment
		}
		out = append(out, row)
	}
	return out, nil
}

func getPool(c *call) (any, error) {
	p := c.access.pools[c.get("poolid")]
	if p == nil {
		return nil, die(fmt.Sprintf("no such pool '%s'", c.get("poolid")))
	}
	row := object{"members": c.poolMembers(p)}
	if p.comment != "" {
		row["comment"] = p.comment
	}
	return row, nil
}

func createPool(c *call) (any, error) {
	id := c.get("poolid")
	if c.access.pools[id] != nil {
		return nil, die(fmt.Sprintf("create pool failed: pool '%s' already exists", id))
	}
	c.access.pools[id] = &pool{comment: c.get("comment"), vms: map[int]bool{}, storages: map[string]bool{}}
	c.touch()
	return nil, nil //nolint:nilnil // the answer is null
}

func updatePool(c *call) (any, error) {
	id := c.get("poolid")
	p := c.access.pools[id]
	if p == nil {
		return nil, die(fmt.Sprintf("update pool failed: pool '%s' does not exist", id))
	}
	if c.has("comment") {
		p.comment = c.get("comment")
	}
	remove := c.flag("delete")
	for _, text := range split(c.get("vms")) {
		vmid := atoi(text)
		if err := c.access.check(c.who, "/vms/"+strconv.Itoa(vmid), "VM.Allocate"); err != nil {
			return nil, err
		}
		switch in := c.access.poolOf(vmid); {
		case remove && !p.vms[vmid]:
			return nil, die(fmt.Sprintf("update pool failed: VM %d is not a pool member", vmid))
		case remove:
			delete(p.vms, vmid)
		case in == id:
			return nil, die(fmt.Sprintf("update pool failed: VM %d is already a pool member", vmid))
		case in != "" && !c.flag("allow-move"):
			return nil, die(fmt.Sprintf("update pool failed: VM %d belongs already to pool '%s'", vmid, in))
		default:
			if in != "" {
				delete(c.access.pools[in].vms, vmid)
			}
			p.vms[vmid] = true
		}
	}
	for _, sid := range split(c.get("storage")) {
		if err := c.access.check(c.who, "/storage/"+sid, "Datastore.Allocate"); err != nil {
			return nil, err
		}
		if remove {
			delete(p.storages, sid)
		} else {
			p.storages[sid] = true
		}
	}
	c.touch()
	return nil, nil //nolint:nilnil // the answer is null
}

func deletePool(c *call) (any, error) {
	id := c.get("poolid")
	p := c.access.pools[id]
	switch {
	case p == nil:
		return nil, die(fmt.Sprintf("delete pool failed: pool '%s' does not exist", id))
	case len(p.vms) > 0 || len(p.storages) > 0:
		return nil, die(fmt.Sprintf("delete pool failed: pool '%s' is not empty", id))
	}
	delete(c.access.pools, id)
	c.touch()
	return nil, nil //nolint:nilnil // the answer is null
}
