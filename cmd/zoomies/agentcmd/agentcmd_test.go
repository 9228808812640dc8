package agentcmd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// clear leaves none of the agent's variables to a test.
func clearEnv(t *testing.T) {
	t.Helper()
	for _, v := range Variables {
		t.Setenv(v, "")
	}
}

func parsed(t *testing.T, args ...string) Flags {
	t.Helper()
	var f Flags
	fl := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	f.Add(fl, "podman")
	if err := fl.Parse(append(args, "--data-dir", t.TempDir(), "--name", "here")); err != nil {
		t.Fatal(err)
	}
	return f
}

const secret = "zookey_never_shown"

func TestTunnelIsRefusedByABuildWithoutOne(t *testing.T) {
	clearEnv(t)
	t.Setenv(ControllerVariable, "http://controller")
	t.Setenv(TunnelVariable, "tunnel-address")
	t.Setenv(TunnelKeyVariable, secret)
	err := Run(t.Context(), parsed(t), Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "this build has no tunnel") || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
	if _, there := os.LookupEnv(TunnelKeyVariable); there {
		t.Error("a child process would inherit the tunnel's key")
	}
}

func TestTunnelNeedsAddressAndKey(t *testing.T) {
	for name, missing := range map[string]string{TunnelVariable: "without a key", TunnelKeyVariable: "without an address"} {
		clearEnv(t)
		t.Setenv(name, secret)
		if _, err := tunnelWanted(); err == nil || !strings.Contains(err.Error(), missing) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s alone: %v", name, err)
		}
	}
	clearEnv(t)
	if o, err := tunnelWanted(); err != nil || o.Address != "" {
		t.Errorf("no tunnel was asked for: %+v, %v", o, err)
	}
}

// pipeTunnel counts and refuses.
type pipeTunnel struct{ dialled, closed []string }

func (p *pipeTunnel) Dial(_ context.Context, _, address string) (net.Conn, error) {
	p.dialled = append(p.dialled, address)
	return nil, errors.New("nobody is there")
}

func (p *pipeTunnel) Close() error {
	p.closed = append(p.closed, "closed")
	return nil
}

// With a tunnel plain HTTP is good enough, for any address, and the tunnel ends with the agent.
func TestTunnelIsOpenedWithWhatTheEnvironmentSays(t *testing.T) {
	clearEnv(t)
	t.Setenv(ControllerVariable, "http://controller")
	t.Setenv(TunnelVariable, "tunnel-address")
	t.Setenv(TunnelKeyVariable, secret)
	var got TunnelOptions
	var tunnel pipeTunnel
	noEngine := errors.New("no engine here")
	f := parsed(t)
	err := Run(t.Context(), f, Options{
		Logger: slog.New(slog.DiscardHandler),
		Tunnel: func(_ context.Context, o TunnelOptions) (Tunnel, error) {
			got = o
			return &tunnel, nil
		},
		Makers: map[string]Maker{"podman": func(context.Context, Engine) (func(string) (backend.Backend, error), error) { return nil, noEngine }},
	})
	if !errors.Is(err, noEngine) {
		t.Fatalf("the client was not made, or something else is wrong: %v", err)
	}
	if got.Address != "tunnel-address" || got.Key != secret || got.Name != "here" || got.StateDir != filepath.Join(f.dataDir, "tunnel") {
		t.Errorf("%+v", got)
	}
	if len(tunnel.closed) != 1 {
		t.Error("the tunnel was left open")
	}
}

func TestPlainHTTPNeedsATunnel(t *testing.T) {
	clearEnv(t)
	t.Setenv(ControllerVariable, "http://controller")
	err := Run(t.Context(), parsed(t), Options{Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "plain HTTP") {
		t.Errorf("%v", err)
	}
}

func TestJoinTokenIsTakenOutOfTheEnvironment(t *testing.T) {
	clearEnv(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("zoojoin_file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(TokenVariable, "zoojoin_env")
	if token, err := joinToken(""); err != nil || token != "zoojoin_env" {
		t.Errorf("%q, %v", token, err)
	}
	if _, there := os.LookupEnv(TokenVariable); there {
		t.Error("a child process would inherit the token")
	}
	if token, err := joinToken(file); err != nil || token != "zoojoin_file" {
		t.Errorf("%q, %v", token, err)
	}
	t.Setenv(TokenVariable, "zoojoin_env")
	if _, err := joinToken(file); err == nil || strings.Contains(err.Error(), "zoojoin_") {
		t.Errorf("given twice: %v", err)
	}
}

func TestBackendsThatThereAreNot(t *testing.T) {
	t.Parallel()
	have := map[string]Maker{"process": nil, "podman": nil, "docker": nil}
	_, err := Backends(t.Context(), []string{"lxc"}, have, Engine{})
	if err == nil || !strings.Contains(err.Error(), "the lxc backend") || !strings.Contains(err.Error(), "use podman, docker or process") {
		t.Errorf("%v", err)
	}
	_, err = Backends(t.Context(), []string{"docker"}, map[string]Maker{"podman": nil}, Engine{})
	if err == nil || !strings.HasSuffix(err.Error(), "use podman") {
		t.Errorf("%v", err)
	}
	if _, err := Backends(t.Context(), nil, have, Engine{}); err == nil {
		t.Error("no backend is enough")
	}
}
