// Package agentcmd is the agent as a command: its flags, its environment and how it starts, shared by zoomies and by the small
// zoomies-agent that machines are ignited with. It must stay small: backends and the tunnel come from the binary that wants them.
package agentcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/zoomies-fleet/zoomies/agent"
	"github.com/zoomies-fleet/zoomies/agent/httpclient"
)

// TokenVariable carries the join token of a first start. It is not a flag: a process list is no place for a secret.
const TokenVariable = "ZOOMIES_JOIN_TOKEN"

// Variables that stand in for flags.
const (
	ControllerVariable = "ZOOMIES_CONTROLLER"
	CAFileVariable     = "ZOOMIES_CA_FILE"
	CAPinVariable      = "ZOOMIES_CA_PIN"
)

// Variables are all that this package reads: not settings of a controller.
var Variables = []string{TokenVariable, ControllerVariable, CAFileVariable, CAPinVariable, TunnelVariable, TunnelKeyVariable}

// Flags are what the agent's command line says.
type Flags struct {
	controller, ca, pin, name, dataDir, tokenFile, socket string
	capacity                                              int
	backends                                              []string
	labels                                                map[string]string
}

// Add declares the flags. have says which backends this binary is built with.
func (f *Flags) Add(fl *pflag.FlagSet, have string) {
	fl.StringVar(&f.controller, "controller", "", "address of the controller, https://host[:port] (default: $"+ControllerVariable+", or the one it joined)")
	fl.StringVar(&f.ca, "ca-file", "", "PEM file of the authority that the controller's certificate must come from (default: $"+CAFileVariable+")")
	fl.StringVar(&f.pin, "ca-pin", "", "the same by its pin, sha256:…, as join-token prints it (default: $"+CAPinVariable+", or the one it joined with)")
	fl.StringVar(&f.name, "name", "", "this host's name in the fleet (default: the machine's name)")
	fl.StringVar(&f.dataDir, "data-dir", "/var/lib/zoomies", "folder of the agent's credentials")
	fl.StringVar(&f.tokenFile, "token-file", "", "file with the single-use join token")
	fl.StringVar(&f.socket, "podman-socket", "", "path of Podman's API socket (default: found)")
	fl.IntVar(&f.capacity, "capacity", 0, "runners this host holds at once; 0 is one for each core")
	fl.StringSliceVar(&f.backends, "backends", []string{"podman"}, "what runners may be started with: "+have)
	fl.StringToStringVar(&f.labels, "label", nil, "label of this host, key=value, for pools that select hosts")
}

// Options are what the binary brings along.
type Options struct {
	Version string
	Makers  map[string]Maker // of backends, by name
	Tunnel  OpenTunnel       // nil in a build without one
	Logger  *slog.Logger
}

// Run joins or resumes, and serves until ctx ends.
func Run(ctx context.Context, f Flags, o Options) (err error) {
	token, err := joinToken(f.tokenFile)
	if err != nil {
		return err
	}
	wanted, err := tunnelWanted()
	if err != nil {
		return err
	}
	state := filepath.Join(f.dataDir, "agent.json")
	to, err := whereTo(f, state)
	if err != nil {
		return err
	}
	if f.name == "" {
		if f.name, err = os.Hostname(); err != nil {
			return fmt.Errorf("cannot tell this machine's name; give --name: %w", err)
		}
	}
	if err := os.MkdirAll(f.dataDir, 0o700); err != nil {
		return fmt.Errorf("cannot make the data folder: %w", err)
	}
	if wanted.Address != "" {
		wanted.Name, wanted.StateDir, wanted.Logger = f.name, filepath.Join(f.dataDir, "tunnel"), o.Logger
		tunnel, openErr := o.Tunnel.open(ctx, wanted)
		if openErr != nil {
			return openErr
		}
		defer func() { err = errors.Join(err, tunnel.Close()) }()
		to.Dial, to.AllowHTTP = tunnel.Dial, true
	}
	client, err := httpclient.New(to)
	if err != nil {
		return err
	}
	bind, err := Backends(ctx, f.backends, o.Makers, Engine{PodmanSocket: f.socket, DataDir: f.dataDir, Logger: o.Logger})
	if err != nil {
		return err
	}
	unbound, err := bind("")
	if err != nil {
		return err
	}
	return agent.Serve(ctx, agent.Config{
		Controller: client, Address: to.Address, CAPin: to.Pin, Backends: unbound, Bind: bind, StatePath: state, JoinToken: token,
		Name: f.name, Version: o.Version, Capacity: f.capacity, WorkDir: f.dataDir, Labels: f.labels, Logger: o.Logger,
	})
}

// whereTo says which controller to reach and how to know it: by the flags, else the environment, else what was kept of the join. A
// kept pin counts for the address that it was kept for.
func whereTo(f Flags, state string) (httpclient.Options, error) {
	for flag, name := range map[*string]string{&f.controller: ControllerVariable, &f.ca: CAFileVariable, &f.pin: CAPinVariable} {
		if *flag == "" {
			*flag = os.Getenv(name)
		}
	}
	kept, err := agent.LoadState(state)
	if err != nil {
		return httpclient.Options{}, err
	}
	if f.controller == "" {
		f.controller = kept.Controller
	}
	switch {
	case f.controller == "":
		return httpclient.Options{}, errors.New("cannot tell where the controller is: give --controller, as `zoomies join-token` prints it")
	case f.ca == "" && f.pin == "" && f.controller == kept.Controller:
		f.pin = kept.CAPin
	}
	to := httpclient.Options{Address: f.controller, Pin: f.pin}
	if f.ca != "" {
		if to.CA, err = os.ReadFile(f.ca); err != nil {
			return to, fmt.Errorf("cannot read the controller's authority: %w", err)
		}
	}
	return to, nil
}

// joinToken takes the token from its variable, which it removes so that no child process inherits it, or from a file.
func joinToken(file string) (string, error) {
	token, err := takeVariable(TokenVariable)
	if err != nil {
		return "", err
	}
	if file == "" {
		return token, nil
	}
	if token != "" {
		return "", errors.New("the join token is given twice: use $" + TokenVariable + " or --token-file, not both")
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("cannot read the join token: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// takeVariable reads a secret out of the environment and leaves none there.
func takeVariable(name string) (string, error) {
	value := os.Getenv(name)
	return value, os.Unsetenv(name)
}

// NewLogger makes the logger that the settings ask for.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("cannot use log level %q: use debug, info, warn or error", level)
	}
	o := &slog.HandlerOptions{Level: l}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return slog.New(slog.NewTextHandler(w, o)), nil
}
