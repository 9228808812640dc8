package ignition

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	base "github.com/coreos/butane/base/v0_5"
	"golang.org/x/crypto/ssh"
)

// Machine is what hosts and controllers have in common.
type Machine struct {
	Hostname    string   // a DNS label
	TimeServers []string // names or addresses; none leaves the image's own
	CABundle    []byte   // PEM certificates that Podman and Zoomies trust besides the system's
	SSHKeys     []string // lines of authorized_keys; none lets nobody in
	SSHUser     string   // who the keys are for; "" is core
	SwapMiB     int      // size of a swap file; 0 is none
	Disk        *Disk    // a disk for what grows; nil keeps it on the system's
}

var (
	labelForm  = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	domainForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)
	userForm   = regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
)

// Places on the machine that more than one file of this package names.
const (
	caFile   = "/etc/ssl/certs/zoomies-ca.pem" // programs written in Go read every file of that folder
	etcDir   = "/etc/zoomies"
	dataDir  = "/var/lib/zoomies"
	swapFile = "/var/lib/zoomies-swap/swapfile"
)

// swap limits, in MiB.
const (
	minSwap = 64
	maxSwap = 1 << 20
)

func (m Machine) add(c *config, diskPath string) error {
	if !labelForm.MatchString(m.Hostname) {
		return fmt.Errorf("cannot use %q as a host name: it is no DNS label of small letters, digits and hyphens, such as zoomies-linux-7", m.Hostname)
	}
	c.file("/etc/hostname", 0o644, m.Hostname+"\n")
	for _, step := range []func(*config) error{m.time, m.authorities, m.ssh, m.swap} {
		if err := step(c); err != nil {
			return err
		}
	}
	if m.Disk != nil {
		return m.Disk.add(c, diskPath)
	}
	return nil
}

func (m Machine) time(c *config) error {
	if len(m.TimeServers) == 0 {
		return nil
	}
	for _, s := range m.TimeServers {
		if net.ParseIP(s) == nil && (len(s) > 253 || !domainForm.MatchString(s)) {
			return fmt.Errorf("cannot use %q as a time server: it is neither a name nor an IP address", s)
		}
	}
	c.file("/etc/systemd/timesyncd.conf.d/50-zoomies.conf", 0o644, "[Time]\nNTP="+strings.Join(m.TimeServers, " ")+"\n")
	c.unit("systemd-timesyncd.service", "")
	return nil
}

// authorities keeps nothing but certificates: a bundle with a private key in it is a mistake that should not spread.
func (m Machine) authorities(c *config) error {
	if len(m.CABundle) == 0 {
		return nil
	}
	var out bytes.Buffer
	for rest := m.CABundle; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return errors.New("cannot use the CA bundle: there is something else than certificates in it, perhaps a private key; take that out")
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return errors.New("cannot use the CA bundle: one of its certificates cannot be read")
		}
		if err := pem.Encode(&out, &pem.Block{Type: block.Type, Bytes: block.Bytes}); err != nil {
			return fmt.Errorf("cannot use the CA bundle: %w", err)
		}
	}
	if out.Len() == 0 {
		return errors.New("cannot use the CA bundle: there is no PEM certificate in it")
	}
	c.file(caFile, 0o644, out.String())
	return nil
}

func (m Machine) ssh(c *config) error {
	if len(m.SSHKeys) == 0 {
		return nil
	}
	user := m.SSHUser
	if user == "" {
		user = "core"
	}
	if !userForm.MatchString(user) || user == "root" {
		return fmt.Errorf("cannot use %q as the user for SSH: it is no plain user name, or it is root", user)
	}
	u := base.PasswdUser{Name: user}
	for i, line := range m.SSHKeys {
		key, comment, options, rest, err := ssh.ParseAuthorizedKey([]byte(line))
		if err != nil || len(options) > 0 || len(bytes.TrimSpace(rest)) > 0 {
			return fmt.Errorf("cannot use SSH key %d: it is not one public key as in a .pub file", i+1)
		}
		text := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
		if comment != "" {
			text += " " + comment
		}
		u.SSHAuthorizedKeys = append(u.SSHAuthorizedKeys, base.SSHAuthorizedKey(text))
	}
	c.Passwd.Users = append(c.Passwd.Users, u)
	return nil
}

// swap is a file, which needs no room to be set aside when a disk is laid out. The file is whole before it has its name.
func (m Machine) swap(c *config) error {
	switch {
	case m.SwapMiB == 0:
		return nil
	case m.SwapMiB < minSwap, m.SwapMiB > maxSwap:
		return fmt.Errorf("cannot make %d MiB of swap: use %d to %d, or 0 for none", m.SwapMiB, minSwap, maxSwap)
	}
	c.dir("/var/lib/zoomies-swap", 0o700)
	c.unit("zoomies-swap.service", fmt.Sprintf(`[Unit]
Description=Swap space
RequiresMountsFor=%[1]s

[Service]
Type=oneshot
RemainAfterExit=yes
UMask=0077
ExecStart=/bin/sh -c 'test -e %[1]s || { rm -f %[1]s.new && fallocate -l %[2]dM %[1]s.new && mkswap %[1]s.new && mv %[1]s.new %[1]s; }'
ExecStart=/bin/sh -c 'grep -q "^%[1]s " /proc/swaps || swapon %[1]s'
ExecStop=/bin/sh -c 'swapoff %[1]s'

[Install]
WantedBy=multi-user.target
`, swapFile, m.SwapMiB))
	return nil
}
