package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/zoomies-fleet/zoomies/cmd/zoomies/demo"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// zoomies is built by `make build`.
const zoomies = "../../bin/zoomies"

const password = "correct horse battery staple"

// operator is a person at a shell: what they know of the fleet is what commands print.
type operator struct {
	*testing.T
	data string   // the controller's data folder, empty at first
	env  []string // of every command
	url  string   // of the controller
	log  *process // of the controller
}

// newOperator makes one with an empty data folder and no configuration.
func newOperator(t *testing.T) *operator {
	t.Helper()
	data, err := os.MkdirTemp("", "zoomies-new-*") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(data) }) // a leftover in the system's own folder
	home := t.TempDir()
	o := &operator{T: t, data: data, env: []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_CONFIG_HOME=" + filepath.Join(home, "config"),
		"ZOOMIES_DATA_DIR=" + data,
	}}
	o.file("password", password+"\n")
	return o
}

// file writes a file into the operator's home, for them alone, and returns its path.
func (o *operator) file(name, text string) string {
	o.Helper()
	path := o.path(name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		o.Fatal(err)
	}
	return path
}

func (o *operator) path(name string) string {
	return filepath.Join(strings.TrimPrefix(o.env[1], "HOME="), name)
}

// controller starts `zoomies controller` with these settings, as variables, and waits until its owner is answered.
func (o *operator) controller(settings ...string) {
	o.Helper()
	o.log = o.start(append([]string{"ZOOMIES_LOG_FORMAT=json"}, settings...), "controller")
	eventually(o.T, "the controller listens", func() bool {
		for line := range strings.Lines(o.log.text()) {
			var l struct {
				Msg, Address string
				TLS          bool
			}
			if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "listening" {
				o.url = map[bool]string{false: "http://", true: "https://"}[l.TLS] + l.Address
			}
		}
		if o.log.ended() {
			o.Fatalf("the controller ended:\n%s", o.log.text())
		}
		_, err := os.Stat(filepath.Join(o.data, "local.sock"))
		return o.url != "" && err == nil
	})
}

// process is a command that runs.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // once done is closed
	mu   sync.Mutex
	out  bytes.Buffer
}

// Write implements io.Writer for both of its streams.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *process) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// start starts a command that goes on, until the test's end at the latest.
func (o *operator) start(env []string, args ...string) *process {
	o.Helper()
	p := &process{cmd: exec.Command(zoomies, args...), done: make(chan struct{})}
	p.cmd.Env = append(append([]string{}, o.env...), env...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		o.Fatalf("cannot start zoomies (run `make build` first): %v", err)
	}
	go func() { p.err = p.cmd.Wait(); close(p.done) }()
	o.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		<-p.done
		if o.Failed() {
			o.Logf("zoomies %s printed:\n%s", strings.Join(args, " "), p.text())
		}
	})
	return p
}

// ends runs a command to its end, and returns its status and what it printed.
func (o *operator) ends(args ...string) (code int, stdout, stderr string) {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, zoomies, args...)
	cmd.Env = o.env
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		o.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// exits wants a command to end with that status, and returns what it printed.
func (o *operator) exits(code int, args ...string) (stdout, stderr string) {
	o.Helper()
	got, stdout, stderr := o.ends(args...)
	if got != code {
		o.Fatalf("zoomies %s ended with %d, want %d:\n%s%s", strings.Join(args, " "), got, code, stdout, stderr)
	}
	return stdout, stderr
}

// run wants a command to go well, and returns its standard output.
func (o *operator) run(args ...string) string {
	o.Helper()
	out, _ := o.exits(0, args...)
	return out
}

// says runs a command that goes well, and wants these in its output.
func (o *operator) says(wants []string, args ...string) string {
	o.Helper()
	out := o.run(args...)
	for _, w := range wants {
		if !strings.Contains(out, w) {
			o.Errorf("zoomies %s does not say %q:\n%s", strings.Join(args, " "), w, out)
		}
	}
	return out
}

// row is an object of an answer.
type row map[string]any

func (r row) text(key string) string { s, _ := r[key].(string); return s }

// rows runs a list in JSON.
func (o *operator) rows(args ...string) []row {
	o.Helper()
	out := o.run(append(args, "--output", "json")...)
	var all []row
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		o.Fatalf("zoomies %s printed no JSON: %v\n%s", strings.Join(args, " "), err, out)
	}
	return all
}

// until repeats a list until one of its rows is as wanted, and returns that.
func (o *operator) until(what string, ok func(row) bool, args ...string) (found row) {
	o.Helper()
	eventually(o.T, what, func() bool {
		for _, r := range o.rows(args...) {
			if ok(r) {
				found = r
				return true
			}
		}
		return false
	})
	return found
}

// connect runs `zoomies github connect` and is the person at the browser.
func (o *operator) connect(gh *simgithub.Server, hc *http.Client, args ...string) {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, zoomies, append([]string{"github", "connect", "--output", "json", "--base-url", gh.URL()}, args...)...)
	cmd.Env = o.env
	var errs strings.Builder
	cmd.Stderr = &errs
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		o.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		o.Fatal(err)
	}
	out := json.NewDecoder(pipe)
	var begun struct{ URL string }
	if err := out.Decode(&begun); err != nil {
		_ = cmd.Wait()
		o.Fatalf("zoomies github connect printed no address: %v\n%s", err, errs.String())
	}
	page, err := simgithub.Click(ctx, hc, begun.URL)
	if err != nil || !strings.Contains(page, "GitHub is connected") {
		cancel()
		_ = cmd.Wait()
		o.Fatalf("the flow ended with %v:\n%s\n%s", err, page, errs.String())
	}
	_, _ = io.Copy(io.Discard, pipe)
	if err := cmd.Wait(); err != nil {
		o.Fatalf("zoomies github connect: %v\n%s", err, errs.String())
	}
}

// github starts a simulated GitHub with an organisation of that name, which containers can reach.
func (o *operator) github(organisation string) (gh *simgithub.Server, installation int64) {
	o.Helper()
	gh, err := demo.StartGitHub(o.Context(), simgithub.Options{}, testLog())
	if err != nil {
		o.Fatal(err)
	}
	o.Cleanup(func() { _ = gh.Close() }) // the test is over
	return gh, gh.AddInstallation(organisation, "Organization")
}

// createPool makes a pool of the test's runner image.
func (o *operator) createPool(name, installation string, args ...string) {
	o.Helper()
	all := append([]string{"pools", "create", name, "--installation", installation, "--image", demo.Image, "--pull-policy", "never"}, args...)
	if n := demo.PoolNetwork(); n != "" {
		all = append(all, "--network", n)
	}
	o.run(all...)
}
