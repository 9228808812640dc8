package install

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Facts are what the machine says of itself.
type Facts struct {
	Root       bool
	Systemd    bool
	Self       string // the running binary
	UID        int    // the service's user: its number, or one that is free
	GID        int    // its group
	UserThere  bool
	UserHome   string
	SubIDs     bool // the user has ranges of subordinate numbers
	SubIDsFree int  // where a free range begins
	Port       error
	Space      uint64 // bytes free where the data will be
	DataThere  bool   // the data folder exists
	DataUsed   bool   // and something is in it
	BinThere   bool   // BinFile exists
	Settings   bool   // SettingsFile exists
	Installed  bool   // the manifest is there
	Missing    []string
	DockerSock bool
}

// Places that init uses.
const (
	UserName     = "zoomies"
	BinFile      = "/usr/local/bin/zoomies"
	EtcDir       = "/etc/zoomies"
	SettingsFile = EtcDir + "/zoomies.yaml"
	UnitName     = "zoomies.service"
	UnitFile     = "/etc/systemd/system/" + UnitName
)

// subIDs is how many subordinate numbers a user of containers gets.
const subIDs = 65536

// look finds the facts out. running says that the service of an earlier installation holds the port itself.
func look(ctx context.Context, a Answers, installed bool) (Facts, error) {
	f := Facts{Root: os.Geteuid() == 0, Installed: installed, Systemd: exists("/run/systemd/system")}
	var err error
	if f.Self, err = os.Executable(); err == nil {
		f.Self, err = filepath.EvalSymlinks(f.Self)
	}
	if err != nil {
		return f, fmt.Errorf("cannot find this program: %w", err)
	}
	if u, err := user.Lookup(UserName); err == nil {
		f.UserThere, f.UserHome = true, u.HomeDir
		if f.UID, err = strconv.Atoi(u.Uid); err == nil {
			f.GID, err = strconv.Atoi(u.Gid)
		}
		if err != nil {
			return f, fmt.Errorf("cannot use the user %s: %w", UserName, err)
		}
	} else if f.UID, err = freeID(); err != nil {
		return f, err
	} else {
		f.GID = f.UID // useradd gives the user's own group the same number, which is free
	}
	if f.SubIDs, f.SubIDsFree, err = subordinate(); err != nil {
		return f, err
	}
	running := installed && exec.CommandContext(ctx, "systemctl", "is-active", "--quiet", UnitName).Run() == nil
	if !running {
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", a.Listen)
		if f.Port = err; err == nil {
			_ = ln.Close() // it was only tried
		}
	}
	f.Space = space(a.DataDir)
	if all, err := os.ReadDir(a.DataDir); err == nil {
		f.DataThere, f.DataUsed = true, len(all) > 0
	} else if !errors.Is(err, os.ErrNotExist) {
		return f, fmt.Errorf("cannot look at the data folder: %w", err)
	}
	f.BinThere, f.Settings, f.DockerSock = exists(BinFile), exists(SettingsFile), exists("/var/run/docker.sock")
	f.Missing = missing(ctx, a.Backend)
	return f, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// missing names what the backend needs and the machine lacks.
func missing(ctx context.Context, backend string) []string {
	var out []string
	program := func(names ...string) {
		for _, n := range names {
			if _, err := exec.LookPath(n); err == nil {
				return
			}
		}
		out = append(out, strings.Join(names, " or "))
	}
	program("systemctl")
	program("useradd")
	if backend != "podman" {
		return out
	}
	for _, n := range [][]string{{"podman"}, {"newuidmap"}, {"newgidmap"}, {"pasta", "slirp4netns"}, {"loginctl"}, {"runuser"}} {
		program(n...)
	}
	for _, unit := range []string{"podman.socket", "dbus.socket"} {
		if !exists("/usr/lib/systemd/user/"+unit) && !exists("/etc/systemd/user/"+unit) && !exists("/lib/systemd/user/"+unit) {
			out = append(out, unit+" for users (Debian: dbus-user-session, podman)")
		}
	}
	if raw, err := exec.CommandContext(ctx, "podman", "--version").Output(); err == nil {
		words := strings.Fields(string(raw))
		major, _, _ := strings.Cut(words[len(words)-1], ".")
		if n, err := strconv.Atoi(major); err == nil && n < 4 {
			out = append(out, "podman 4.0 or later (here is "+words[len(words)-1]+")")
		}
	}
	return out
}

// freeID is the highest number for services that no user and no group has.
func freeID() (int, error) {
	for id := 990; id >= 500; id-- {
		n := strconv.Itoa(id)
		if _, err := user.LookupId(n); err == nil {
			continue
		}
		if _, err := user.LookupGroupId(n); err == nil {
			continue
		}
		return id, nil
	}
	return 0, errors.New("cannot find a free number for the user " + UserName)
}

// subordinate says whether the service's user has a range in both files, and where a free one begins.
func subordinate() (has bool, free int, err error) {
	ranges := 0
	free = 100_000
	for _, file := range []string{"/etc/subuid", "/etc/subgid"} {
		f, err := os.Open(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return false, 0, err
		}
		for in := bufio.NewScanner(f); in.Scan(); {
			p := strings.Split(in.Text(), ":")
			if len(p) != 3 {
				continue
			}
			first, err1 := strconv.Atoi(p[1])
			count, err2 := strconv.Atoi(p[2])
			if err1 != nil || err2 != nil {
				continue
			}
			free = max(free, first+count)
			if p[0] == UserName && count >= subIDs {
				ranges++
			}
		}
		_ = f.Close() // it was only read
	}
	return ranges >= 2, free, nil
}

// space is how much is free in the file system that the folder is or will be in.
func space(dir string) uint64 {
	for ; ; dir = filepath.Dir(dir) {
		var s syscall.Statfs_t
		if err := syscall.Statfs(dir, &s); err == nil {
			return s.Bavail * uint64(s.Bsize) // a block has a size above zero
		}
		if dir == "/" {
			return 0
		}
	}
}
