package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/agent"
	"github.com/zoomies-fleet/zoomies/agent/httpclient"
)

// joinTokenVariable carries the join token of a first start. It is not a flag: a process list is no place for a secret.
const joinTokenVariable = "ZOOMIES_JOIN_TOKEN"

// Variables that stand in for flags.
const (
	controllerVariable = "ZOOMIES_CONTROLLER"
	caFileVariable     = "ZOOMIES_CA_FILE"
	caPinVariable      = "ZOOMIES_CA_PIN"
)

type agentFlags struct {
	controller, ca, pin, name, dataDir, tokenFile, socket string
	capacity                                              int
	backends                                              []string
	labels                                                map[string]string
}

func agentCommand() *cobra.Command {
	var f agentFlags
	c := &cobra.Command{
		Use:   "agent",
		Short: "Run runners on this machine for a controller elsewhere",
		Long: "Joins a controller with a single-use token and runs the runners it is given. It connects outward only. The token of the first start\n" +
			"comes from $" + joinTokenVariable + " or --token-file; later starts use what the first one left in the data folder, agent.json. Do not copy\n" +
			"that file or clone a machine that has it: two machines cannot be one host, and the second is refused. A host that takes over the name\n" +
			"of another, such as the same machine made anew, needs a token made for that name. Stopping an agent leaves its jobs running.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runAgent(cmd, f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.controller, "controller", "", "address of the controller, https://host[:port] (default: $"+controllerVariable+", or the one it joined)")
	fl.StringVar(&f.ca, "ca-file", "", "PEM file of the authority that the controller's certificate must come from (default: $"+caFileVariable+")")
	fl.StringVar(&f.pin, "ca-pin", "", "the same by its pin, sha256:…, as join-token prints it (default: $"+caPinVariable+", or the one it joined with)")
	fl.StringVar(&f.name, "name", "", "this host's name in the fleet (default: the machine's name)")
	fl.StringVar(&f.dataDir, "data-dir", "/var/lib/zoomies", "folder of the agent's credentials")
	fl.StringVar(&f.tokenFile, "token-file", "", "file with the single-use join token")
	fl.StringVar(&f.socket, "podman-socket", "", "path of Podman's API socket (default: found)")
	fl.IntVar(&f.capacity, "capacity", 0, "runners this host holds at once; 0 is one for each core")
	fl.StringSliceVar(&f.backends, "backends", []string{"podman"}, "what runners may be started with: podman, docker, process")
	fl.StringToStringVar(&f.labels, "label", nil, "label of this host, key=value, for pools that select hosts")
	return c
}

func runAgent(cmd *cobra.Command, f agentFlags) error {
	log, err := newLogger(os.Stderr, "info", "text")
	if err != nil {
		return err
	}
	token, err := joinToken(f.tokenFile)
	if err != nil {
		return err
	}
	state := filepath.Join(f.dataDir, "agent.json")
	to, err := whereTo(f, state)
	if err != nil {
		return err
	}
	client, err := httpclient.New(to)
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
	bind, err := backends(cmd.Context(), f.backends, f.socket, f.dataDir, log)
	if err != nil {
		return err
	}
	unbound, err := bind("")
	if err != nil {
		return err
	}
	return agent.Serve(cmd.Context(), agent.Config{
		Controller: client, Address: to.Address, CAPin: to.Pin, Backends: unbound, Bind: bind, StatePath: state, JoinToken: token,
		Name: f.name, Version: version, Capacity: f.capacity, WorkDir: f.dataDir, Labels: f.labels, Logger: log,
	})
}

// whereTo says which controller to reach and how to know it: by the flags, else the environment, else what was kept of the join. A
// kept pin counts for the address that it was kept for.
func whereTo(f agentFlags, state string) (httpclient.Options, error) {
	for flag, name := range map[*string]string{&f.controller: controllerVariable, &f.ca: caFileVariable, &f.pin: caPinVariable} {
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
	token := os.Getenv(joinTokenVariable)
	if err := os.Unsetenv(joinTokenVariable); err != nil {
		return "", err
	}
	if file == "" {
		return token, nil
	}
	if token != "" {
		return "", errors.New("the join token is given twice: use $" + joinTokenVariable + " or --token-file, not both")
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("cannot read the join token: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}
