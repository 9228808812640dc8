// Package layout lays an Ignition config out below a folder as Ignition would in a new machine's root: directories, files, links, units
// and presets. Simulated machines start from what it leaves. What it does not support it refuses, before it has made anything where
// that can be seen from the config. Everything belongs to whoever lays out, who need not be root.
package layout

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	ign "github.com/coreos/ignition/v2/config/v3_4"
	"github.com/coreos/ignition/v2/config/v3_4/types"
)

// PresetPath is the file, below the root, that says which units are enabled.
const PresetPath = "/etc/systemd/system-preset/20-ignition.preset"

const unitDir = "/etc/systemd/system"

// Modes where a config names none.
const (
	fileMode = 0o644
	dirMode  = 0o755
)

// Result is what a machine would do next.
type Result struct {
	Enabled []string // units that start with the machine, in the config's order
}

// Lay lays a config of version 3.0 to 3.4 out below the folder root, which exists. No link leads it out of there. When it fails, what
// it has made so far stays.
func Lay(config []byte, root string) (Result, error) {
	c, r, err := ign.ParseCompatibleVersion(config)
	if err != nil || r.IsFatal() {
		return Result{}, fmt.Errorf("cannot lay the config out: it is no Ignition config of version 3.0 to 3.4: %w", cmp.Or(err, errors.New(r.String())))
	}
	if err := supported(c); err != nil {
		return Result{}, err
	}
	dir, err := os.OpenRoot(root)
	if err != nil {
		return Result{}, fmt.Errorf("cannot lay the config out: %w", err)
	}
	defer func() { _ = dir.Close() }()
	m := machine{dir}
	for _, n := range nodes(c.Storage) {
		if err := m.make(n); err != nil {
			return Result{}, fmt.Errorf("cannot make %s: %w", n.node.Path, err)
		}
	}
	return m.units(c.Systemd.Units)
}

// supported refuses what takes more than a folder to do.
func supported(c types.Config) error {
	for what, has := range map[string]bool{
		"ignition.config.merge or replace": len(c.Ignition.Config.Merge) > 0 || c.Ignition.Config.Replace.Source != nil,
		"kernelArguments":                  len(c.KernelArguments.ShouldExist)+len(c.KernelArguments.ShouldNotExist) > 0,
		"passwd":                           len(c.Passwd.Users)+len(c.Passwd.Groups) > 0,
		"storage.disks":                    len(c.Storage.Disks) > 0,
		"storage.filesystems":              len(c.Storage.Filesystems) > 0,
		"storage.luks":                     len(c.Storage.Luks) > 0,
		"storage.raid":                     len(c.Storage.Raid) > 0,
	} {
		if has {
			return fmt.Errorf("cannot lay the config out: %s needs a real machine; leave it out", what)
		}
	}
	return nil
}

// node is one thing to make below the root. One of the pointers is set.
type node struct {
	node types.Node
	file *types.File
	dir  *types.Directory
	link *types.Link
}

// nodes are a config's, in Ignition's order: what is higher up comes first, and of the same depth directories before files before links.
func nodes(s types.Storage) []node {
	var out []node
	for i := range s.Directories {
		out = append(out, node{node: s.Directories[i].Node, dir: &s.Directories[i]})
	}
	for i := range s.Files {
		out = append(out, node{node: s.Files[i].Node, file: &s.Files[i]})
	}
	for i := range s.Links {
		out = append(out, node{node: s.Links[i].Node, link: &s.Links[i]})
	}
	slices.SortStableFunc(out, func(a, b node) int {
		return cmp.Compare(strings.Count(path.Clean(a.node.Path), "/"), strings.Count(path.Clean(b.node.Path), "/"))
	})
	return out
}

// machine is the root of one.
type machine struct{ root *os.Root }

// inside is a path of the machine as one below its root.
func inside(p string) string { return strings.TrimPrefix(path.Clean("/"+p), "/") }

func (m machine) make(n node) error {
	if err := owner(n.node); err != nil {
		return err
	}
	name := inside(n.node.Path)
	if name == "" {
		return errors.New("the root is there already")
	}
	if n.node.Overwrite != nil && *n.node.Overwrite {
		if err := m.root.RemoveAll(name); err != nil {
			return err
		}
	}
	if err := m.parents(name); err != nil {
		return err
	}
	old, err := m.root.Lstat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	switch {
	case n.dir != nil:
		return m.makeDir(name, n.dir, old)
	case n.file != nil:
		return m.makeFile(name, n.file, old)
	}
	return m.makeLink(name, n.link, old)
}

// owner refuses owners other than root, which whoever lays out may not be able to give away to.
func owner(n types.Node) error {
	for _, o := range []struct {
		id   *int
		name *string
	}{{n.User.ID, n.User.Name}, {n.Group.ID, n.Group.Name}} {
		if o.id != nil && *o.id != 0 || o.name != nil && *o.name != "root" {
			return errors.New("it is to belong to somebody else than root, which is not supported")
		}
	}
	return nil
}

func (m machine) parents(name string) error {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}
	return m.root.MkdirAll(dir, dirMode)
}

func (m machine) makeDir(name string, d *types.Directory, old fs.FileInfo) error {
	switch {
	case old == nil:
		if err := m.root.Mkdir(name, dirMode); err != nil {
			return err
		}
	case !old.IsDir():
		return errors.New("something else than a directory is there, and overwrite is not set")
	case d.Mode == nil:
		return nil
	}
	return m.root.Chmod(name, modeOf(d.Mode, dirMode))
}

func (m machine) makeFile(name string, f *types.File, old fs.FileInfo) error {
	switch {
	case old == nil:
	case !old.Mode().IsRegular():
		return errors.New("something else than a file is there, and overwrite is not set")
	case f.Contents.Source != nil:
		return errors.New("a file is there, and overwrite is not set")
	}
	if old == nil || f.Contents.Source != nil {
		content, err := decode(f.Contents)
		if err != nil {
			return err
		}
		if err := m.write(name, content, os.O_CREATE|os.O_EXCL); err != nil {
			return err
		}
	}
	for _, fragment := range f.Append {
		content, err := decode(fragment)
		if err != nil {
			return err
		}
		if err := m.write(name, content, os.O_APPEND); err != nil {
			return err
		}
	}
	if old != nil && f.Mode == nil {
		return nil
	}
	return m.root.Chmod(name, modeOf(f.Mode, fileMode))
}

// write never leaves a file readable that is to be secret: its mode is widened at the end.
func (m machine) write(name string, content []byte, how int) error {
	f, err := m.root.OpenFile(name, os.O_WRONLY|how, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

func (m machine) makeLink(name string, l *types.Link, old fs.FileInfo) error {
	target := *l.Target // Ignition's rules want one
	hard := l.Hard != nil && *l.Hard
	switch {
	case hard && old != nil:
		there, err := m.root.Lstat(inside(target))
		if err != nil || !os.SameFile(old, there) {
			return errors.New("something else is there, and overwrite is not set")
		}
		return nil
	case hard:
		return m.root.Link(inside(target), name)
	case old != nil:
		there, err := m.root.Readlink(name)
		if err != nil || path.Clean(there) != path.Clean(target) {
			return errors.New("something else is there, and overwrite is not set")
		}
		return nil
	}
	return m.root.Symlink(target, name)
}

// modeOf turns a config's number into a mode, the special bits too.
func modeOf(given *int, usual fs.FileMode) fs.FileMode {
	if given == nil {
		return usual
	}
	mode := fs.FileMode(*given) & fs.ModePerm
	for bit, special := range map[int]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if *given&bit != 0 {
			mode |= special
		}
	}
	return mode
}
