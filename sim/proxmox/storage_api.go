package proxmox

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

func (s *Server) storageRow(n *node, st *store) object {
	row := object{"type": st.Kind, "content": strings.Join(st.Content, ","), "shared": number01(st.Shared), "enabled": number01(!st.Disabled), "active": 0, "total": 0, "used": 0, "avail": 0}
	if sp := st.spaces[n.Name]; sp != nil && !st.Disabled && !st.inactive[n.Name] {
		used := sp.used()
		row["active"], row["total"], row["used"], row["avail"] = 1, sp.total, used, max(sp.total-used, 0)
	}
	return row
}

func getStorages(c *call) (any, error) {
	out := []object{}
	n := c.node()
	for _, id := range c.storeIDs {
		st := c.stores[id]
		if want := c.get("storage"); want != "" && want != id || st.spaces[n.Name] == nil {
			continue
		}
		if !c.access.hasAny(c.who, "/storage/"+id, "Datastore.Audit", "Datastore.AllocateSpace") {
			continue
		}
		if c.flag("enabled") && st.Disabled {
			continue
		}
		if want := split(c.get("content")); len(want) > 0 && !slices.ContainsFunc(want, st.holds) {
			continue
		}
		row := c.storageRow(n, st)
		row["storage"] = id
		if sp := st.spaces[n.Name]; row["active"] == 1 && sp.total > 0 {
			row["used_fraction"] = rounded(float64(sp.used()) / float64(sp.total))
		}
		out = append(out, row)
	}
	return out, nil
}

func getStorageIndex(c *call) (any, error) {
	out := []object{}
	for d := range strings.FieldsSeq("content download-url file-restore import-metadata oci-registry-pull prunebackups rrd rrddata status upload") {
		out = append(out, object{"subdir": d})
	}
	return out, nil
}

func getStorageStatus(c *call) (any, error) {
	st := c.stores[c.get("storage")]
	if st == nil {
		return nil, wrongField("storage", "No such storage.")
	}
	return c.storageRow(c.node(), st), nil
}

func (v *volume) row() object {
	row := object{"volid": v.id, "content": v.vtype, "format": v.format, "size": v.size, "ctime": v.created.Unix()}
	if v.vtype == "iso" {
		row["format"] = "iso"
	}
	if v.vtype == "images" {
		row["vmid"] = v.owner
		if v.parent != "" {
			_, name, _ := strings.Cut(v.parent, ":")
			row["parent"] = name
		}
	}
	return row
}

func getContent(c *call) (any, error) {
	st, sp, err := c.enabled(c.get("storage"), c.node().Name)
	if err != nil {
		return nil, err
	}
	if st.inactive[c.node().Name] {
		return nil, die(fmt.Sprintf("storage '%s' is not online", st.ID))
	}
	out := []object{}
	for _, id := range slices.Sorted(maps.Keys(sp.vols)) {
		v := sp.vols[id]
		if want := c.get("content"); want != "" && want != v.vtype {
			continue
		}
		if want := c.get("vmid"); want != "" && atoi(want) != v.owner {
			continue
		}
		if c.mayUse(c.who, 0, id) == nil {
			out = append(out, v.row())
		}
	}
	return out, nil
}

// volid is the volume of the path: with its storage or without.
func (c *call) volid() string {
	v := c.get("volume")
	if !strings.Contains(v, ":") {
		v = c.get("storage") + ":" + v
	}
	return v
}

func getVolume(c *call) (any, error) {
	id := c.volid()
	if err := c.mayUse(c.who, 0, id); err != nil {
		return nil, err
	}
	v := c.find(id, c.node().Name)
	if v == nil {
		return nil, die(fmt.Sprintf("volume_size_info on '%s' failed - no format", id))
	}
	row := object{"path": c.path(v), "size": v.size, "used": blocks(v.used), "format": v.format}
	if v.vtype == "iso" {
		row["format"] = "raw"
	}
	return row, nil
}

// blocks is a size as a file system counts it.
func blocks(n int64) int64 { return (n + 4095) / 4096 * 4096 }

// path is where a volume would be on a real node.
func (s *Server) path(v *volume) string {
	_, name, _ := strings.Cut(v.id, ":")
	st := s.stores[v.storage]
	dir := "/var/lib/vz"
	if st.Kind == "nfs" {
		dir = "/mnt/pve/" + st.ID
	}
	switch {
	case !st.files():
		return "/dev/" + st.ID + "/" + name
	case v.vtype == "iso":
		return dir + "/template/" + name
	case v.vtype == "images":
		return dir + "/images/" + name
	}
	return dir + "/" + name
}

func deleteVolume(c *call) (any, error) {
	id := c.volid()
	name, err := c.volume(id)
	if err != nil {
		return nil, err
	}
	if err := c.access.check(c.who, "/storage/"+name.storage, "Datastore.Allocate"); err != nil {
		return nil, err
	}
	n := c.node()
	return c.begin("imgdel", name.storage, func(t *task) error {
		if err := c.inUse(n, id); err != nil {
			return err
		}
		c.free(n, []string{id})
		t.say(fmt.Sprintf("Removed volume '%s'", id))
		return nil
	})
}

func (st *store) config() object {
	row := object{"storage": st.ID, "type": st.Kind, "content": strings.Join(st.Content, ",")}
	if len(st.Nodes) > 0 {
		row["nodes"] = strings.Join(st.Nodes, ",")
	}
	if st.Shared {
		row["shared"] = 1
	}
	if st.Disabled {
		row["disable"] = 1
	}
	if st.files() {
		row["path"] = "/var/lib/vz"
	}
	return row
}

func getStorageConfig(c *call) (any, error) {
	out := []object{}
	for _, id := range c.storeIDs {
		st := c.stores[id]
		if want := c.get("type"); want != "" && want != st.Kind {
			continue
		}
		if c.access.hasAny(c.who, "/storage/"+id, "Datastore.Audit", "Datastore.Allocate", "Datastore.AllocateSpace") {
			out = append(out, st.config())
		}
	}
	return out, nil
}

func getOneStorageConfig(c *call) (any, error) {
	st, err := c.storage(c.get("storage"))
	if err != nil {
		return nil, err
	}
	return st.config(), nil
}

// receiveUpload is what POST …/upload does with a file that was received.
func receiveUpload(c *call) (any, error) {
	st, sp, err := c.enabled(c.get("storage"), c.node().Name)
	if err != nil {
		return nil, err
	}
	if !st.files() {
		return nil, die(fmt.Sprintf("can't upload to storage type '%s'", st.Kind))
	}
	if c.file == nil {
		return nil, die("missing temporary file name")
	}
	asked := filepath.Base(c.get("filename"))
	name := badLetters.ReplaceAllString(asked, "_")
	content := c.get("content")
	fits := map[string]bool{"iso": isoName.MatchString(name), "vztmpl": tarName.MatchString(name), "import": importOK.MatchString(name)}
	if !fits[content] {
		return nil, wrongField("filename", "wrong file extension")
	}
	if !st.holds(content) {
		return nil, die(fmt.Sprintf("storage '%s' does not support '%s' content", st.ID, content))
	}
	file, want, algorithm, who := c.file, c.get("checksum"), c.get("checksum-algorithm"), c.who
	c.file = nil // the worker's now
	entry := c.order[0]
	t := c.fork(entry, "imgcopy", "", who, func(t *task) error {
		t.say(fmt.Sprintf("starting file import from: %s", file.spool))
		t.say(fmt.Sprintf("target node: %s", c.get("node")))
		t.say(fmt.Sprintf("target file: %s/template/%s/%s", "/var/lib/vz", content, name))
		if asked != name {
			t.say(fmt.Sprintf("file name was changed to '%s'", name))
		}
		defer func() { entry.spoolFree += file.size }()
		if algorithm != "" {
			if got := file.sum(algorithm); got != want {
				return die(fmt.Sprintf("checksum mismatch: got '%s' != expect '%s'", got, want))
			}
		}
		if err := c.disk(t, c.copying(file.size)); err != nil {
			if errors.Is(err, errKilled) {
				entry.leftovers = append(entry.leftovers, file.spool)
			}
			return err
		}
		id := fmt.Sprintf("%s:%s/%s", st.ID, content, name)
		v := &volume{id: id, storage: st.ID, vtype: content, size: file.size, used: file.size, created: c.clock.Now(), identity: c.uuid()}
		v.format = strings.ToLower(strings.TrimPrefix(filepath.Ext(name), "."))
		if sp.used()+v.used > sp.total {
			return die("import failed: /bin/cp: error writing '" + c.path(v) + "': No space left on device")
		}
		v.content = c.keep(name, file.data)
		v.image, v.file = v.content.sum, v.content.path
		sp.vols[id] = v
		t.say("finished file import successfully")
		return nil
	})
	c.mark(t)
	return t.upid, nil
}
