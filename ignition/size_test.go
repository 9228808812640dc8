package ignition

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/zoomies-fleet/zoomies/ignition/drive"
)

// tunnelRoom is what the agent still has to grow by: about 6 MB of compressed tunnel, a third more in base64. Whoever links the tunnel
// takes this away.
const tunnelRoom = 8_000_000

// agentProgram builds the agent as make does.
func agentProgram(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "zoomies-agent")
	build := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", path, "../cmd/zoomies-agent")
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// What every rented machine is sent stays small, and the program that Ignition's makers ship to check configs agrees with it.
func TestARealHostsConfigStaysSmall(t *testing.T) {
	t.Parallel()
	program := agentProgram(t)
	agent, err := PackBinary(program)
	if err != nil {
		t.Fatal(err)
	}
	h := full(t)
	h.Agent = agent
	raw, err := h.Render()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("the agent has %d bytes, %d in the config's base64; the config has %d", len(program), len(agent.source), len(raw))
	if most := MaxSize - tunnelRoom; len(raw) > most {
		t.Errorf("the config has %d bytes, and %d are the most; what was linked into the agent?", len(raw), most)
	}
	image, err := drive.Write(drive.OpenStack, raw)
	if err != nil || len(image) > len(raw)+64<<10 {
		t.Errorf("the drive has %d bytes, %v", len(image), err)
	}
	dir := t.TempDir()
	validator := filepath.Join(dir, "ignition-validate")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", validator, "github.com/coreos/ignition/v2/validate").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file := filepath.Join(dir, "config.ign")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), validator, file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
