package podman

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/containers/podman/v5/libpod/define"
	"go.podman.io/storage/pkg/idtools"
)

// What a Podman without root needs of the machine, and a machine may not give. Podman's own words for these are long and
// name causes; these say what to do.

// machine is where the checks look; a test puts a folder in its place.
type machine struct {
	root     string                       // "/" in earnest
	lookPath func(string) (string, error) // exec.LookPath in earnest
}

func thisMachine() machine { return machine{root: "/", lookPath: exec.LookPath} }

// userNamespaces says why this machine lets a user without root make no containers at all.
func (m machine) userNamespaces() error {
	for _, program := range []string{"newuidmap", "newgidmap"} {
		if _, err := m.lookPath(program); err != nil {
			return fmt.Errorf("without root it needs %s: as root, install the package uidmap", program)
		}
	}
	for _, s := range []struct{ file, say string }{
		{"user/max_user_namespaces", "user.max_user_namespaces=15000"},
		{"kernel/unprivileged_userns_clone", "kernel.unprivileged_userns_clone=1"}, // Debian's kernels only
	} {
		value, err := os.ReadFile(filepath.Join(m.root, "proc/sys", s.file))
		if err == nil && strings.TrimSpace(string(value)) == "0" {
			return fmt.Errorf("this machine allows no user namespaces: as root, run `sysctl %s`, or use Podman as root", s.say)
		}
	}
	return nil
}

// tun says why this machine gives containers without root no network of their own.
func (m machine) tun() error {
	file, err := os.OpenFile(filepath.Join(m.root, "dev/net/tun"), os.O_RDWR, 0)
	if err == nil {
		return file.Close()
	}
	if path, ok := errors.AsType[*os.PathError](err); ok {
		err = path.Err
	}
	do := "chmod 666 /dev/net/tun"
	if errors.Is(err, os.ErrNotExist) {
		do = "modprobe tun"
	}
	return fmt.Errorf("without root a container's network needs /dev/net/tun, and this user cannot open it (%w): as root, run `%s`, or use network host or none", err, do)
}

// delegated are the controllers that systemd lets a user give to containers. Podman lists those that something uses at the
// moment, which leaves out the CPU until the first container has asked for it (seen with 5.4).
func (m machine) delegated(uid int) []string {
	list, err := os.ReadFile(filepath.Join(m.root, fmt.Sprintf("sys/fs/cgroup/user.slice/user-%d.slice/user@%d.service/cgroup.controllers", uid, uid)))
	if err != nil {
		return nil
	}
	return strings.Fields(string(list))
}

// wholeRange is how many user IDs an ordinary image needs: up to nobody's.
const wholeRange = 65535

// idRange says that a user has too few IDs to give to the users inside of containers.
func idRange(maps define.IDMappings, name string) error {
	for _, ids := range [][]idtools.IDMap{maps.UIDMap, maps.GIDMap} {
		total := 0
		for _, m := range ids {
			total += m.Size
		}
		if total < wholeRange {
			return fmt.Errorf("user %s has %d IDs for the users inside of containers, and %d are needed: "+
				"as root, run `usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s`, then as %s `podman system migrate`", name, total, wholeRange, name, name)
		}
	}
	return nil
}

// userName is the current user's, or its number when it has no name.
func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}
