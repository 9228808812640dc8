package proxmox

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

type object = map[string]any

func getVersion(c *call) (any, error) {
	r := releases[c.opts.Version]
	return object{"version": r.full, "repoid": r.repoid, "release": c.opts.Version}, nil
}

func getPermissions(c *call) (any, error) {
	who := c.who
	if asked := c.get("userid"); asked != "" {
		name, _, _ := strings.Cut(c.who, "!")
		if asked != c.who && asked != name {
			if err := c.access.check(c.who, "/access", "Sys.Audit"); err != nil {
				return nil, err
			}
		}
		who = asked
	}
	out := map[string]map[string]int{}
	give := func(path string, privs map[string]bool) {
		out[path] = map[string]int{}
		for p, propagate := range privs {
			out[path][p] = number01(propagate)
		}
	}
	if p := c.get("path"); p != "" {
		give(p, c.access.permissions(who, normal(p)))
		return out, nil
	}
	for p, privs := range c.access.effective(who) {
		give(p, privs)
	}
	return out, nil
}

func number01(b bool) int {
	if b {
		return 1
	}
	return 0
}

func getNextID(c *call) (any, error) {
	if asked := c.get("vmid"); asked != "" {
		if c.vms[atoi(asked)] != nil {
			return nil, wrongField("vmid", fmt.Sprintf("VM %s already exists", asked))
		}
		return asked, nil
	}
	for id := 100; ; id++ {
		if c.vms[id] == nil {
			return strconv.Itoa(id), nil
		}
	}
}

// use is what a node's machines use.
func (s *Server) use(n *node) (mem int64, cpu float64) {
	mem = 1 << 30
	for _, v := range s.vms {
		if v.running && v.node == n.Name {
			mem += v.memory()
			cpu += 0.02 * float64(v.cpus())
		}
	}
	return min(mem, n.MemoryMB<<20), min(cpu/float64(n.CPUs)+0.01, 1)
}

const rootDisk = 270553174016 // bytes: of the recorded machine

func (c *call) nodeRow(n *node) object {
	row := object{"node": n.Name, "id": "node/" + n.Name, "type": "node", "status": "online"}
	if n.offline != "" {
		row["status"] = "offline"
	}
	if n.offline != "" || !c.access.has(c.who, "/nodes/"+n.Name, "Sys.Audit") {
		return row
	}
	mem, cpu := c.use(n)
	maps.Copy(row, object{
		"level": "", "cpu": cpu, "maxcpu": n.CPUs, "mem": mem, "maxmem": n.MemoryMB << 20, "disk": 34855383040, "maxdisk": rootDisk,
		"uptime": int64(c.clock.Now().Sub(n.joined).Seconds()),
	})
	return row
}

// nodeFingerprint is the certificate of a node: the entry node's is the one that is served.
func (s *Server) nodeFingerprint(n *node) string {
	if n.index == 0 {
		return s.Fingerprint()
	}
	sum := sha256.Sum256([]byte(n.Name))
	parts := make([]string, len(sum))
	for i, b := range sum {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}

func getNodes(c *call) (any, error) {
	out := []object{}
	for _, n := range c.order {
		row := c.nodeRow(n)
		row["ssl_fingerprint"] = c.nodeFingerprint(n)
		out = append(out, row)
	}
	return out, nil
}

func getNodeStatus(c *call) (any, error) {
	n := c.node()
	mem, cpu := c.use(n)
	total := n.MemoryMB << 20
	return object{
		"pveversion": "pve-manager/" + releases[c.opts.Version].full + "/" + releases[c.opts.Version].repoid,
		"uptime":     int64(c.clock.Now().Sub(n.joined).Seconds()), "cpu": cpu, "loadavg": []string{"0.10", "0.08", "0.05"}, "wait": 0, "idle": 0,
		"cpuinfo": object{"cpus": n.CPUs, "cores": n.CPUs, "sockets": 1, "model": "simulated", "mhz": "3000.000", "flags": "", "hvm": "1", "user_hz": 100},
		"memory":  object{"total": total, "used": mem, "free": total - mem, "available": total - mem},
		"rootfs":  object{"total": rootDisk, "used": 34855383040, "free": rootDisk - 34855383040, "avail": rootDisk - 34855383040},
		"swap":    object{"total": 0, "used": 0, "free": 0}, "ksm": object{"shared": 0},
		"current-kernel": object{"sysname": "Linux", "release": "6.14.8-2-pve", "machine": "x86_64", "version": "simulated"},
		"boot-info":      object{"mode": "efi", "secureboot": 0},
	}, nil
}

func getNetwork(c *call) (any, error) {
	out := []object{}
	for _, b := range c.node().Bridges {
		if !c.access.hasAny(c.who, "/sdn/zones/localnetwork/"+b, "SDN.Audit", "SDN.Use") && !c.access.has(c.who, "/nodes/"+c.node().Name, "Sys.Audit") {
			continue
		}
		switch kind := c.get("type"); kind {
		case "", "bridge", "any_bridge", "any_local_bridge", "include_sdn":
		default:
			continue
		}
		row := object{
			"iface": b, "type": "bridge", "active": 1, "autostart": 1, "priority": 3, "method": "manual", "method6": "manual", "bridge_fd": "0",
			"bridge_stp": "off", "bridge_ports": "", "families": []string{"inet"},
		}
		if b == c.node().Bridges[0] && c.node().Address != "" {
			maps.Copy(row, object{"method": "static", "address": c.node().Address, "netmask": "24", "cidr": c.node().Address + "/24"})
		}
		out = append(out, row)
	}
	return out, nil
}

func getClusterStatus(c *call) (any, error) {
	out := []object{}
	for i, n := range c.order {
		row := object{"type": "node", "id": "node/" + n.Name, "name": n.Name, "nodeid": i + 1, "online": number01(n.offline == ""), "local": number01(i == 0), "level": ""}
		if n.Address != "" {
			row["ip"] = n.Address
		}
		out = append(out, row)
	}
	if len(c.order) == 1 {
		out[0]["nodeid"] = 0
		return out, nil
	}
	return append([]object{{"type": "cluster", "id": "cluster", "name": "sim", "nodes": len(c.order), "quorate": 1, "version": 3}}, out...), nil
}

func getClusterOptions(c *call) (any, error) {
	tags := map[string]bool{}
	sees := c.access.viewer(c.who)
	for _, v := range c.vms {
		if sees(v.id) {
			for _, t := range split(v.conf["tags"]) {
				tags[t] = true
			}
		}
	}
	allowed := slices.Sorted(maps.Keys(tags))
	if allowed == nil {
		allowed = []string{}
	}
	return object{"allowed-tags": allowed, "mac_prefix": "BC:24:11", "description": ""}, nil
}

func getHAResources(c *call) (any, error) {
	out := []object{}
	for _, id := range c.sorted() {
		if v := c.vms[id]; v.ha {
			out = append(out, object{"sid": fmt.Sprintf("vm:%d", id), "type": "vm", "state": haState(v), "digest": v.digest()})
		}
	}
	return out, nil
}

func haState(v *vm) string {
	if v.running {
		return "started"
	}
	return "stopped"
}

func getHAStatus(c *call) (any, error) {
	out := []object{{"id": "quorum", "type": "quorum", "node": c.order[0].Name, "status": "OK", "quorate": 1}}
	for _, id := range c.sorted() {
		if v := c.vms[id]; v.ha {
			out = append(out, object{"id": fmt.Sprintf("service:vm:%d", id), "sid": fmt.Sprintf("vm:%d", id), "type": "service", "node": v.node, "state": haState(v)})
		}
	}
	return out, nil
}

// sorted are the numbers of all machines.
func (s *Server) sorted() []int { return slices.Sorted(maps.Keys(s.vms)) }

// resource is a machine in /cluster/resources: what its file says is right at once, everything else lags.
func (s *Server) resource(v *vm, pool string) object {
	row := object{"vmid": v.id, "node": v.node, "type": "qemu", "id": "qemu/" + strconv.Itoa(v.id), "status": "unknown"}
	if tags := strings.TrimSpace(v.conf["tags"]); tags != "" {
		row["tags"] = tags
	}
	if l := v.conf["lock"]; l != "" {
		row["lock"] = l
	}
	if pool != "" {
		row["pool"] = pool
	}
	if v.ha {
		row["hastate"] = haState(v)
	}
	b, ok := s.lastSeen(v)
	if !ok || s.nodes[v.node].offline != "" {
		return row
	}
	up := int64(0)
	if b.status == "running" {
		up = int64(s.clock.Now().Sub(b.at).Seconds())
	}
	maps.Copy(row, object{
		"name": b.name, "status": b.status, "template": number01(b.template), "maxcpu": b.cpus, "maxmem": b.mem, "maxdisk": b.disk, "cpu": 0.0, "mem": 0,
		"disk": 0, "netin": 0, "netout": 0, "diskread": 0, "diskwrite": 0, "uptime": up,
	})
	return row
}

func getResources(c *call) (any, error) {
	out := []object{}
	kind := c.get("type")
	if kind == "" || kind == "vm" {
		pools, sees := c.poolIndex(), c.access.viewer(c.who)
		for _, id := range c.sorted() {
			if sees(id) {
				out = append(out, c.resource(c.vms[id], pools[id]))
			}
		}
	}
	if kind == "" {
		for _, id := range slices.Sorted(maps.Keys(c.access.pools)) {
			if c.access.has(c.who, "/pool/"+id, "Pool.Audit") {
				out = append(out, object{"id": "/pool/" + id, "type": "pool", "pool": id})
			}
		}
	}
	for _, n := range c.order {
		if kind == "" || kind == "node" {
			out = append(out, c.nodeRow(n))
		}
		for _, id := range c.storeIDs {
			if st := c.stores[id]; (kind == "" || kind == "storage") && st.spaces[n.Name] != nil && !st.Disabled &&
				c.access.has(c.who, "/storage/"+id, "Datastore.Audit") {
				out = append(out, c.storageResource(n, st))
			}
		}
		if (kind == "" || kind == "sdn") && c.access.hasAny(c.who, "/sdn/zones/localnetwork", "SDN.Audit", "SDN.Use", "SDN.Allocate") {
			out = append(out, zoneResource(c.opts.Version, n.Name))
		}
	}
	return out, nil
}

func zoneResource(version, node string) object {
	if strings.HasPrefix(version, "8.") || version == "9.0" {
		return object{"type": "sdn", "id": "sdn/" + node + "/localnetwork", "sdn": "localnetwork", "node": node, "status": "ok"}
	}
	return object{
		"type": "network", "id": "network/" + node + "/zone/localnetwork", "network": "localnetwork", "network-type": "zone", "node": node, "status": "ok",
	}
}

func (s *Server) storageResource(n *node, st *store) object {
	row := object{
		"type": "storage", "id": "storage/" + n.Name + "/" + st.ID, "storage": st.ID, "node": n.Name, "plugintype": st.Kind, "shared": number01(st.Shared),
		"content": strings.Join(st.Content, ","), "status": "available",
	}
	if st.inactive[n.Name] || n.offline != "" {
		row["status"] = "unknown"
		return row
	}
	row["disk"], row["maxdisk"] = st.spaces[n.Name].used(), st.spaces[n.Name].total
	return row
}

// poolIndex says which pool each machine is in.
func (s *Server) poolIndex() map[int]string {
	out := map[int]string{}
	for id, p := range s.access.pools {
		for vmid := range p.vms {
			out[vmid] = id
		}
	}
	return out
}

func rounded(f float64) float64 { return math.Round(f*1e15) / 1e15 }
