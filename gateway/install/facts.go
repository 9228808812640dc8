package install

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zoomies-fleet/zoomies/provider/proxmox/privileges"
)

// Places that the installer uses. None of them is an agent's or a controller's.
const (
	UnitName    = "zoomies-gateway.service"
	UnitFile    = "/etc/systemd/system/" + UnitName
	ProgramDir  = "/usr/local/lib/zoomies-gateway"
	ProgramFile = ProgramDir + "/zoomies"
	KeepDir     = "/etc/zoomies-gateway" // root's alone: the service cannot write what uninstall goes by
	JournalFile = KeepDir + "/install.json"
	secretFile  = KeepDir + "/token" // only from the making of the token to the completion
	StateDir    = "/var/lib/zoomies-gateway"
	privateDir  = "/var/lib/private/zoomies-gateway" // where systemd keeps it
)

// apiPort is pveproxy's.
const apiPort = "8006"

// Facts are what the node says of itself.
type Facts struct {
	Node    string
	Release string // 8.4.1
	Version privileges.Version
	Cert    Cert
	Target  string // where the node's API listens
	Self    string // the running binary

	Pools    []string
	Users    []string
	Roles    map[string][]string // privileges, sorted
	Tokens   []string            // of User, in full
	Grants   []Grant
	Storages []Storage
	Bridges  []string

	Secret bool // the token's secret is kept: it was made and not posted
	Unit   bool // UnitFile exists
	Dirs   map[string]bool
}

// Grant is an entry of Proxmox's access control list.
type Grant struct {
	Path string `json:"path"`
	Role string `json:"roleid"`
	Kind string `json:"type"` // user, token, group
	Who  string `json:"ugid"`
}

// Storage is a storage of the cluster's.
type Storage struct {
	Name    string `json:"storage"`
	Content string `json:"content"` // images,iso,import
	Disable int    `json:"disable"`
	Nodes   string `json:"nodes"` // empty is all
}

func (s Storage) holds(content string) bool {
	return slices.Contains(strings.Split(s.Content, ","), content)
}

// ask are the commands that only read. Dry runs make them, too.
var ask = struct{ version, pools, users, roles, grants, storages []string }{
	version:  []string{"pvesh", "get", "/version", "--output-format", "json"},
	pools:    []string{"pveum", "pool", "list", "--output-format", "json"},
	users:    []string{"pveum", "user", "list", "--output-format", "json"},
	roles:    []string{"pveum", "role", "list", "--output-format", "json"},
	grants:   []string{"pveum", "acl", "list", "--output-format", "json"},
	storages: []string{"pvesh", "get", "/storage", "--output-format", "json"},
}

func askTokens() []string {
	return []string{"pveum", "user", "token", "list", User, "--output-format", "json"}
}

func askBridges(node string) []string {
	return []string{"pvesh", "get", "/nodes/" + node + "/network", "--type", "any_bridge", "--output-format", "json"}
}

// Look finds the facts out and changes nothing.
func (h *Host) Look(ctx context.Context) (f Facts, err error) {
	if f.Node, err = h.node(); err != nil {
		return f, err
	}
	var version struct {
		Version string `json:"version"`
	}
	if err := h.read(ctx, ask.version, &version); err != nil {
		return f, err
	}
	f.Release = version.Version
	if f.Version, err = privileges.ParseVersion(f.Release); err != nil {
		return f, err
	}
	if err := h.lookAccess(ctx, &f); err != nil {
		return f, err
	}
	if err := h.read(ctx, ask.storages, &f.Storages); err != nil {
		return f, err
	}
	f.Storages = slices.DeleteFunc(f.Storages, func(s Storage) bool {
		return s.Disable != 0 || s.Nodes != "" && !slices.Contains(strings.Split(s.Nodes, ","), f.Node)
	})
	var bridges []struct {
		Name string `json:"iface"`
	}
	if err := h.read(ctx, askBridges(f.Node), &bridges); err != nil {
		return f, err
	}
	for _, b := range bridges {
		f.Bridges = append(f.Bridges, b.Name)
	}
	if f.Cert, err = h.certificate(f.Node); err != nil {
		return f, err
	}
	if f.Target, err = h.target(); err != nil {
		return f, err
	}
	return f, h.lookHere(&f)
}

// LookAccess finds out what an uninstall goes by.
func (h *Host) LookAccess(ctx context.Context) (f Facts, err error) {
	err = h.lookAccess(ctx, &f)
	return f, err
}

// lookAccess reads who may do what.
func (h *Host) lookAccess(ctx context.Context, f *Facts) error {
	var pools []struct {
		ID string `json:"poolid"`
	}
	var users []struct {
		ID string `json:"userid"`
	}
	var roles []struct {
		ID         string `json:"roleid"`
		Privileges string `json:"privs"`
	}
	if err := errors.Join(h.read(ctx, ask.pools, &pools), h.read(ctx, ask.users, &users), h.read(ctx, ask.roles, &roles), h.read(ctx, ask.grants, &f.Grants)); err != nil {
		return err
	}
	for _, p := range pools {
		f.Pools = append(f.Pools, p.ID)
	}
	for _, u := range users {
		f.Users = append(f.Users, u.ID)
	}
	f.Roles = map[string][]string{}
	for _, r := range roles {
		list := strings.FieldsFunc(r.Privileges, func(c rune) bool { return c == ',' || c == ' ' })
		slices.Sort(list)
		f.Roles[r.ID] = list
	}
	if !slices.Contains(f.Users, User) {
		return nil
	}
	var tokens []struct {
		ID string `json:"tokenid"`
	}
	if err := h.read(ctx, askTokens(), &tokens); err != nil {
		return err
	}
	for _, t := range tokens {
		f.Tokens = append(f.Tokens, User+"!"+t.ID)
	}
	return nil
}

// lookHere reads what of the installer's own is on the machine.
func (h *Host) lookHere(f *Facts) error {
	var err error
	if f.Self, err = h.self(); err != nil {
		return err
	}
	f.Dirs = map[string]bool{}
	for path, there := range map[string]*bool{secretFile: &f.Secret, UnitFile: &f.Unit} {
		if *there, err = h.exists(path); err != nil {
			return err
		}
	}
	for _, dir := range []string{KeepDir, ProgramDir, StateDir, privateDir} {
		if f.Dirs[dir], err = h.exists(dir); err != nil {
			return err
		}
	}
	return nil
}

// node is the node's name, as the cluster's file system has it.
func (h *Host) node() (string, error) {
	to, err := os.Readlink(h.at("/etc/pve/local"))
	if err != nil {
		return "", errors.New("cannot tell the node's name: there is no /etc/pve/local, so this is no Proxmox VE node, or its cluster file system is down (systemctl status pve-cluster)")
	}
	return filepath.Base(to), nil
}

// target is where pveproxy listens: everywhere, unless its settings name one address.
func (h *Host) target() (string, error) {
	f, err := os.Open(h.at("/etc/default/pveproxy"))
	if errors.Is(err, fs.ErrNotExist) {
		return net.JoinHostPort("127.0.0.1", apiPort), nil
	} else if err != nil {
		return "", fmt.Errorf("cannot tell where the API listens: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	host := "127.0.0.1"
	in := bufio.NewScanner(f)
	for in.Scan() {
		if v, ok := strings.CutPrefix(strings.TrimSpace(in.Text()), "LISTEN_IP="); ok {
			if ip := net.ParseIP(strings.Trim(v, `"'`)); ip != nil && !ip.IsUnspecified() {
				host = ip.String()
			}
		}
	}
	return net.JoinHostPort(host, apiPort), in.Err()
}

// read runs a command that only reads and decodes what it prints.
func (h *Host) read(ctx context.Context, argv []string, into any) error {
	out, err := h.command(ctx, argv)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(out)) == 0 {
		return nil
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("cannot read what %s printed: %w", strings.Join(argv, " "), err)
	}
	return nil
}
