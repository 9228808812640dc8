// Package ignite is `zoomies ignition`: it prints the configs that machines are set up with, and writes the drives that carry them. It
// asks no controller. Secrets come from files or the environment, never from flags.
package ignite

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/zoomies-fleet/zoomies/cmd/zoomies/agentcmd"
	"github.com/zoomies-fleet/zoomies/controller/config"
	"github.com/zoomies-fleet/zoomies/ignition"
	"github.com/zoomies-fleet/zoomies/ignition/drive"
)

// Command is `zoomies ignition`.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "ignition",
		Short: "Make the configs that machines are set up with at their first boot",
		Long: "A machine that boots the appliance image for the first time is told by an Ignition config what it is: a host that joins a controller, or\n" +
			"a controller. Rented machines get theirs by themselves; this is for machines that you start by hand.",
	}
	c.AddCommand(hostCommand(), controllerCommand(), isoCommand())
	return c
}

// machineFlags are what both kinds of machine have.
type machineFlags struct {
	hostname, caBundle, sshUser, disk, filesystem, output string
	timeServers, sshKeys                                  []string
	swap, partition                                       int
	wipe                                                  bool
}

func (f *machineFlags) add(fl *pflag.FlagSet, disk string) {
	fl.StringVar(&f.hostname, "hostname", "", "name of the machine: a DNS label (required)")
	fl.StringSliceVar(&f.timeServers, "time-server", nil, "name or address of a time server; can be repeated (default: the image's own)")
	fl.StringVar(&f.caBundle, "ca-bundle", "", "PEM file of authorities that the machine trusts besides the usual ones")
	fl.StringSliceVar(&f.sshKeys, "ssh-key-file", nil, "file of public keys that may log in; can be repeated (default: nobody can)")
	fl.StringVar(&f.sshUser, "ssh-user", "", "the user that the keys are for (default: core)")
	fl.IntVar(&f.swap, "swap-mib", 0, "size of a swap file in MiB; 0 is none")
	fl.StringVar(&f.disk, "disk", "", "device that "+disk+" is kept on, such as /dev/disk/by-id/… (default: the system's disk)")
	fl.IntVar(&f.partition, "disk-partition", 0, "number of the one partition of the disk to make, or to grow; 0 takes the whole disk")
	fl.StringVar(&f.filesystem, "disk-filesystem", "", "ext4 or xfs (default: ext4)")
	fl.BoolVar(&f.wipe, "disk-wipe", false, "make the filesystem anew although one of an earlier machine is there")
	fl.StringVar(&f.output, "output", "-", "file to write, which only its owner can read; - is the standard output")
}

func (f *machineFlags) machine() (ignition.Machine, error) {
	m := ignition.Machine{Hostname: f.hostname, TimeServers: f.timeServers, SSHUser: f.sshUser, SwapMiB: f.swap}
	if f.caBundle != "" {
		var err error
		if m.CABundle, err = os.ReadFile(f.caBundle); err != nil {
			return m, fmt.Errorf("cannot read the CA bundle: %w", err)
		}
	}
	for _, file := range f.sshKeys {
		raw, err := os.ReadFile(file)
		if err != nil {
			return m, fmt.Errorf("cannot read SSH keys: %w", err)
		}
		for line := range strings.Lines(string(raw)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				m.SSHKeys = append(m.SSHKeys, line)
			}
		}
	}
	if f.disk != "" {
		m.Disk = &ignition.Disk{Device: f.disk, Partition: f.partition, Filesystem: f.filesystem, Wipe: f.wipe}
	} else if f.partition != 0 || f.filesystem != "" || f.wipe {
		return m, errors.New("cannot lay out a disk that is not named: give --disk, too")
	}
	return m, nil
}

func hostCommand() *cobra.Command {
	var f machineFlags
	var h ignition.Host
	var agentFile, tokenFile, keyFile string
	var mirrors, insecure []string
	c := &cobra.Command{
		Use:   "host",
		Short: "Print the config of a host that joins a controller",
		Long: "Prints the Ignition config of a machine that runs jobs. It carries the agent itself, and the join token, which comes from --token-file or\n" +
			"$" + agentcmd.TokenVariable + ". The host joins under --hostname, so the token has to be made for that name. Behind a tunnel the host's key comes\n" +
			"from --tunnel-key-file or $" + agentcmd.TunnelKeyVariable + ".",
		Example: "  zoomies join-token --host builder-2 > token\n" +
			"  zoomies ignition host --hostname builder-2 --controller https://zoomies.example.org --ca-pin sha256:… --token-file token --output builder-2.ign",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if h.Machine, err = f.machine(); err != nil {
				return err
			}
			if h.Mirrors, err = mirrorsOf(mirrors, insecure); err != nil {
				return err
			}
			if h.JoinToken, err = secret("join token", tokenFile, "--token-file", agentcmd.TokenVariable); err != nil {
				return err
			}
			if h.TunnelKey, err = secret("tunnel's key", keyFile, "--tunnel-key-file", agentcmd.TunnelKeyVariable); err != nil {
				return err
			}
			if h.Agent, err = packAgent(agentFile); err != nil {
				return err
			}
			raw, err := h.Render()
			if err != nil {
				return err
			}
			return write(cmd, f.output, raw)
		},
	}
	fl := c.Flags()
	f.add(fl, "Podman's storage")
	fl.StringVar(&agentFile, "agent", "", "the agent's program (default: zoomies-agent beside this one)")
	fl.StringVar(&h.Arch, "arch", "amd64", "processor of the machine: amd64 or arm64")
	fl.StringVar(&h.Controller, "controller", "", "address of the controller, https://host[:port] (required)")
	fl.StringVar(&h.CAPin, "ca-pin", "", "the authority that the controller's certificate must come from, sha256:…, as join-token prints it")
	fl.StringVar(&tokenFile, "token-file", "", "file with the single-use join token (default: $"+agentcmd.TokenVariable+")")
	fl.StringVar(&h.Tunnel, "tunnel", "", "address of the controller's tunnel")
	fl.StringVar(&keyFile, "tunnel-key-file", "", "file with this host's key for the tunnel (default: $"+agentcmd.TunnelKeyVariable+")")
	fl.IntVar(&h.Capacity, "capacity", 0, "runners this host holds at once; 0 is one for each core")
	fl.StringToStringVar(&h.Labels, "label", nil, "label of this host, key=value, for pools that select hosts")
	fl.StringArrayVar(&mirrors, "mirror", nil, "where images of a registry are looked for first, registry=mirror; can be repeated")
	fl.StringArrayVar(&insecure, "insecure-mirror", nil, "the same, over plain HTTP or with a certificate that nobody vouches for")
	required(c, "hostname", "controller")
	return c
}

func controllerCommand() *cobra.Command {
	var f machineFlags
	var settings string
	c := &cobra.Command{
		Use:   "controller",
		Short: "Print the config of a controller",
		Long:  "Prints the Ignition config of a machine that runs the control plane, whose program is in the appliance image already.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m, err := f.machine()
			if err != nil {
				return err
			}
			ct := ignition.Controller{Machine: m}
			if settings != "" {
				if _, err := config.Load(config.LoadOptions{File: settings}); err != nil {
					return err
				}
				if ct.Settings, err = os.ReadFile(settings); err != nil {
					return fmt.Errorf("cannot read the settings: %w", err)
				}
			}
			raw, err := ct.Render()
			if err != nil {
				return err
			}
			return write(cmd, f.output, raw)
		},
	}
	f.add(c.Flags(), "the controller's data")
	c.Flags().StringVar(&settings, "settings", "", "the controller's zoomies.yaml (default: every setting has its default)")
	required(c, "hostname")
	return c
}

func isoCommand() *cobra.Command {
	var file, label, output string
	var empty bool
	c := &cobra.Command{
		Use:   "iso",
		Short: "Write the drive that carries a config to a machine",
		Long: "Writes an ISO 9660 image, to be attached to a machine as a CD-ROM for its first boot. The appliance reads one with the label config-2,\n" +
			"Fedora CoreOS on Proxmox one with the label cidata. Take it away once the machine has joined: it holds what the config holds.",
		Example: "  zoomies ignition iso --config builder-2.ign --output builder-2.iso",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			image, err := makeISO(cmd.InOrStdin(), file, drive.Label(label), empty)
			if err != nil {
				return err
			}
			return write(cmd, output, image)
		},
	}
	fl := c.Flags()
	fl.StringVar(&file, "config", "", "the Ignition config; - is the standard input")
	fl.StringVar(&label, "drive-label", string(drive.OpenStack), "label of the drive: config-2 or cidata")
	fl.BoolVar(&empty, "empty", false, "write a drive with nothing on it, to put over one with secrets")
	fl.StringVar(&output, "output", "", "file to write, which only its owner can read; - is the standard output (required)")
	required(c, "output")
	c.MarkFlagsMutuallyExclusive("config", "empty")
	c.MarkFlagsOneRequired("config", "empty")
	return c
}

func makeISO(in io.Reader, file string, label drive.Label, empty bool) ([]byte, error) {
	if empty {
		return drive.Empty(label)
	}
	var raw []byte
	var err error
	if file == "-" {
		raw, err = io.ReadAll(io.LimitReader(in, drive.MaxUserData+1))
	} else {
		raw, err = os.ReadFile(file)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read the config: %w", err)
	}
	if err := ignition.Validate(raw); err != nil {
		return nil, err
	}
	return drive.Write(label, raw)
}

// mirrorsOf reads registry=mirror.
func mirrorsOf(secure, insecure []string) ([]ignition.Mirror, error) {
	var out []ignition.Mirror
	for i, text := range append(append([]string{}, secure...), insecure...) {
		registry, mirror, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("cannot use %q as a mirror: write registry=mirror, such as docker.io=mirror.example.org:5000", text)
		}
		out = append(out, ignition.Mirror{Registry: registry, Mirror: mirror, Insecure: i >= len(secure)})
	}
	return out, nil
}

// secret comes from a file, else from the environment.
func secret(what, file, flag, variable string) (ignition.Secret, error) {
	value := os.Getenv(variable)
	if file == "" {
		return ignition.Secret(value), nil
	}
	if value != "" {
		return "", fmt.Errorf("the %s is given twice: use $%s or %s, not both", what, variable, flag)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("cannot read the %s: %w", what, err)
	}
	return ignition.Secret(strings.TrimSpace(string(raw))), nil
}

func packAgent(file string) (*ignition.Binary, error) {
	if file == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("cannot find the agent; give --agent: %w", err)
		}
		file = filepath.Join(filepath.Dir(self), "zoomies-agent")
	}
	program, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the agent; give --agent: %w", err)
	}
	return ignition.PackBinary(program)
}

// write puts a config or a drive where it was asked for. A terminal is no place for megabytes with secrets in them.
func write(cmd *cobra.Command, path string, content []byte) error {
	if path == "-" {
		out := cmd.OutOrStdout()
		if f, ok := out.(*os.File); ok && isatty.IsTerminal(f.Fd()) && len(content) > 64<<10 {
			return fmt.Errorf("cannot print %d bytes on a terminal: give --output FILE, or send it to a program", len(content))
		}
		_, err := out.Write(content)
		return err
	}
	// Removed first, since a file that is there would keep its own mode.
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot write it anew: %w", err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return fmt.Errorf("cannot write it: %w", err)
	}
	return nil
}

func required(c *cobra.Command, flags ...string) {
	for _, f := range flags {
		_ = c.MarkFlagRequired(f) // the flag exists
	}
}
