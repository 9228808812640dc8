package ignition

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Host is a machine that runs jobs: an agent that joins a controller at its first boot.
type Host struct {
	Machine            // its Hostname is the name under which the host joins
	Agent      *Binary // from PackBinary
	Arch       string  // GOARCH of the machine; "" is amd64
	Controller string  // base URL of the controller; http:// only with a tunnel
	CAPin      string  // sha256:…, the authority of the controller's certificate; "" trusts the system's
	JoinToken  Secret  // single use, made for Hostname
	Tunnel     string  // the controller's address in a tunnel; "" is none
	TunnelKey  Secret  // this host's key for the tunnel
	Capacity   int     // runners at once; 0 is one for each core
	Labels     map[string]string
	Mirrors    []Mirror
}

// Places of a host, for whoever starts one without systemd.
const (
	AgentPath = "/var/opt/zoomies/bin/zoomies-agent" // /usr is read-only, and SELinux lets programs of an opt folder run
	AgentEnv  = etcDir + "/agent.env"
	AgentUnit = "zoomies-agent.service"

	podmanSocket = "/run/podman/podman.sock"
	containers   = "/var/lib/containers"
)

var (
	pinForm      = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	labelKeyForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$`)
	// plainForm is what systemd's environment files take as it stands.
	plainForm = regexp.MustCompile(`^[A-Za-z0-9_.:/+=@,~!?&;*()\[\]{}<>|^-]+$`)
)

// Render makes the host's config. It holds the secrets.
func (h Host) Render() ([]byte, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	var c config
	if err := h.add(&c, containers); err != nil {
		return nil, err
	}
	if err := mirrors(&c, h.Mirrors); err != nil {
		return nil, err
	}
	c.dir(etcDir, 0o755)
	c.file(AgentEnv, 0o600, h.environment())
	c.resource(AgentPath, 0o755, h.Agent.resource())
	c.unit("podman.socket", "")
	c.unit(AgentUnit, h.unit())
	raw, err := c.render()
	if err != nil {
		return nil, err
	}
	return h.Agent.fill(raw)
}

func (h Host) check() error {
	arch := h.Arch
	if arch == "" {
		arch = "amd64"
	}
	switch {
	case h.Agent == nil:
		return errors.New("cannot make a host's config without the agent: give the zoomies-agent that make agent builds")
	case h.Agent.arch != arch:
		return fmt.Errorf("cannot make a host's config: the agent is for %s and the machine is %s", h.Agent.arch, arch)
	case h.JoinToken == "":
		return errors.New("cannot make a host's config without a join token: make one with `zoomies join-token --host NAME`")
	case !plainForm.MatchString(string(h.JoinToken)):
		return errors.New("cannot use the join token: it has letters in it that no token has; was a whole line of its file taken?")
	case (h.Tunnel == "") != (h.TunnelKey == ""):
		return errors.New("cannot make a tunnel of half: give the tunnel's address and this host's key, or neither")
	case h.Tunnel != "" && !plainForm.MatchString(h.Tunnel):
		return errors.New("cannot use the tunnel's address: it has blanks, quotes or other letters in it that no address has")
	case h.TunnelKey != "" && !plainForm.MatchString(string(h.TunnelKey)):
		return errors.New("cannot use the tunnel's key: it has letters in it that no key has; was a whole line of its file taken?")
	case h.CAPin != "" && !pinForm.MatchString(h.CAPin):
		return errors.New("cannot use the pin of the controller's authority: write sha256: and 64 digits, as join-token prints it")
	case h.Capacity < 0:
		return fmt.Errorf("cannot run %d runners at once: use 1 or more, or 0 for one for each core", h.Capacity)
	}
	for k, v := range h.Labels {
		if !labelKeyForm.MatchString(k) || v != "" && !labelKeyForm.MatchString(v) {
			return fmt.Errorf("cannot use the label %q: its key and value are letters, digits and ._/- alone, 63 at most", k+"="+v)
		}
	}
	return h.checkController()
}

func (h Host) checkController() error {
	u, err := url.Parse(h.Controller)
	switch {
	case h.Controller == "":
		return errors.New("cannot make a host's config without the controller's address: give its base URL, such as https://zoomies.example.org")
	case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http", !plainForm.MatchString(h.Controller):
		return errors.New("cannot use the controller's address: it is no URL such as https://zoomies.example.org")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return errors.New("cannot use the controller's address: leave out user, query and fragment")
	case u.Scheme == "http" && h.Tunnel == "":
		return errors.New("cannot use the controller's address: over plain HTTP anybody on the way can read the host's token; use https, or a tunnel")
	case u.Scheme == "http" && h.CAPin != "":
		return errors.New("cannot pin an authority over plain HTTP: leave the pin out, or use https")
	}
	return nil
}

// environment is the agent's environment file, for root alone to read.
func (h Host) environment() string {
	var b strings.Builder
	for _, v := range [][2]string{
		{"ZOOMIES_CONTROLLER", h.Controller}, {"ZOOMIES_CA_PIN", h.CAPin}, {"ZOOMIES_JOIN_TOKEN", string(h.JoinToken)},
		{"ZOOMIES_TUNNEL", h.Tunnel}, {"ZOOMIES_TUNNEL_KEY", string(h.TunnelKey)},
	} {
		if v[1] != "" {
			fmt.Fprintf(&b, "%s=%s\n", v[0], v[1])
		}
	}
	return b.String()
}

// arguments are the agent's. Nothing of them is secret, and none needs quoting.
func (h Host) arguments() []string {
	out := []string{"--name", h.Hostname, "--data-dir", dataDir, "--podman-socket", podmanSocket}
	if h.Capacity > 0 {
		out = append(out, "--capacity", fmt.Sprint(h.Capacity))
	}
	for _, k := range slices.Sorted(maps.Keys(h.Labels)) {
		out = append(out, "--label", k+"="+h.Labels[k])
	}
	return out
}

// unit is the agent's. It may write its data folder and drive Podman, see the engine's processes and the kernel's log of processes
// killed for want of memory, and little else. The tunnel is of userspace: it needs sockets and no rights.
func (h Host) unit() string {
	return `[Unit]
Description=Zoomies agent, which runs the jobs of a controller
Wants=podman.socket
After=network.target podman.socket
RequiresMountsFor=` + containers + `
StartLimitIntervalSec=0

[Service]
Type=exec
EnvironmentFile=` + AgentEnv + `
ExecStart=` + AgentPath + " " + strings.Join(h.arguments(), " ") + `
Restart=always
RestartSec=2s
TimeoutStopSec=30s
LimitNOFILE=65536
OOMScoreAdjust=-500
UMask=0077
StateDirectory=zoomies
StateDirectoryMode=0700

# To reach into a runner's volume, keep a bridge's address, look at the engine's namespaces, read the kernel's log.
CapabilityBoundingSet=CAP_DAC_OVERRIDE CAP_FOWNER CAP_NET_ADMIN CAP_SYS_PTRACE CAP_SYSLOG
NoNewPrivileges=yes
ProtectSystem=strict
ReadWritePaths=-` + containers + `/storage/volumes
ProtectHome=yes
PrivateTmp=yes
DevicePolicy=closed
DeviceAllow=/dev/kmsg r
DeviceAllow=/dev/net/tun rw
ProtectClock=yes
ProtectHostname=yes
ProtectControlGroups=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
LockPersonality=yes
MemoryDenyWriteExecute=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
KeyringMode=private

[Install]
WantedBy=multi-user.target
`
}
