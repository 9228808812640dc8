package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/zoomies-fleet/zoomies/cmd/zoomies/serve"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/ignition/drive"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"zoomies": main})
}

// patience is how long a script waits for what must happen.
const patience = 2 * time.Minute

// The scripts are what an operator types, against a controller that runs as a process of its own.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("..", "..", "tests", "cli", "testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			data, err := os.MkdirTemp("", "zoomies-script-*") // the path of a socket is short
			if err != nil {
				return err
			}
			env.Defer(func() { _ = os.RemoveAll(data) })
			for _, v := range [][2]string{
				{"ZOOMIES_DATA_DIR", data}, {"DATA", data}, {"ZOOMIES_LISTEN", "127.0.0.1:0"}, {"ZOOMIES_AGENT_EMBEDDED", "false"},
				{"ZOOMIES_LOG_FORMAT", "json"}, {"XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config")}, {"NO_COLOR", "1"}, //nolint:misspell // the name that other programs take, too
			} {
				env.Setenv(v[0], v[1])
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"controller": controllerStarts, "seed": seed, "exits": exits, "setenv": setenv, "mode": mode, "events": tellsOf, "audited": follows,
			"github": simulateGitHub, "connects": connects, "program": program, "readdrive": readDrive,
		},
	})
}

// program writes a file that looks like a small Linux program for amd64, or for another processor when its number is given.
func program(ts *testscript.TestScript, _ bool, args []string) {
	head := make([]byte, 64)
	copy(head, "\x7fELF\x02\x01\x01")
	head[16], head[18], head[20], head[52] = 2, 62, 1, 64
	if len(args) > 1 {
		n, err := strconv.ParseUint(args[1], 10, 8)
		ts.Check(err)
		head[18] = byte(n)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), head, 0o600))
}

// readDrive takes the config off a config drive, which must have that label.
func readDrive(ts *testscript.TestScript, _ bool, args []string) {
	image, err := os.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	d, err := drive.Read(image)
	ts.Check(err)
	if string(d.Label) != args[0] {
		ts.Fatalf("the label is %s instead of %s", d.Label, args[0])
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), d.UserData, 0o600))
}

// seed writes, before a controller runs, an installation of the name acme and users of each role with their tokens in files; with an
// argument, a host and a job, too. With a second one GitHub has asked to be left alone, so that nobody finds out that the key is none.
func seed(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	data := ts.Getenv("DATA")
	keys, err := secrets.LoadOrCreate(filepath.Join(data, "zoomies.keys"))
	ts.Check(err)
	st, err := store.Open(ctx, store.Options{Path: filepath.Join(data, "zoomies.db"), Keys: keys, Logger: slog.New(slog.DiscardHandler)})
	ts.Check(err)
	defer func() { ts.Check(st.Close()) }()
	in, err := st.CreateInstallation(ctx, store.Installation{
		Name: "acme", AppID: 7, InstallationID: 70, Account: "acme", AccountType: "Organization",
		PrivateKey: secrets.Of("private key"), WebhookSecret: secrets.Of("webhook secret"),
	})
	ts.Check(err)
	ts.Setenv("ACME", in.ID)
	for _, role := range auth.Roles {
		grants := []store.Grant{{Role: string(role), ScopeKind: store.ScopeFleet}}
		u, err := st.CreateUser(ctx, store.User{Name: string(role), Source: "local", Grants: grants})
		ts.Check(err)
		token := auth.NewToken(auth.PrefixAPI)
		_, err = st.CreateAPIToken(ctx, store.APIToken{Name: string(role), Hash: auth.HashToken(token), UserID: u.ID, Scopes: []string{"*"}, Grants: grants})
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(string(role)+".token"), []byte(token+"\n"), 0o600))
	}
	if len(args) > 0 {
		ts.Check(seedFleet(ctx, st, in))
	}
	if len(args) > 1 {
		ts.Check(st.HoldInstallation(ctx, in.ID, time.Now().Add(time.Hour), "a test"))
	}
}

// seedFleet writes a host of the name builder, and a job that no pool takes.
func seedFleet(ctx context.Context, st *store.Store, in store.Installation) error {
	if _, err := st.CreateJoinToken(ctx, store.JoinToken{Hash: "join", ExpiresAt: time.Now().Add(time.Hour)}); err != nil {
		return err
	}
	if _, _, err := st.JoinHost(ctx, "join", "builder", "agent", store.HostUpdate{
		OS: "linux", Arch: "amd64", CPUs: 8, MemoryMB: 16384, Capacity: 10, Backends: []store.HostBackend{{Name: "podman", Version: "5.4.2"}},
	}); err != nil {
		return err
	}
	_, err := st.UpsertJob(ctx, store.JobUpdate{
		InstallationID: in.ID, GitHubID: 11, RunID: 12, RunAttempt: 1, Repository: "acme/app", Workflow: "CI", Name: "build",
		Labels: []string{"self-hosted", "gpu"}, State: store.JobQueued, QueuedAt: time.Now(),
	})
	return err
}

// controllerStarts starts a controller, waits until it listens and answers its owner, and sets $URL. The script's end stops it.
func controllerStarts(ts *testscript.TestScript, _ bool, args []string) {
	var env []string
	for _, name := range []string{"PATH", "HOME", "ZOOMIES_DATA_DIR", "ZOOMIES_LISTEN", "ZOOMIES_AGENT_EMBEDDED", "ZOOMIES_LOG_FORMAT"} {
		env = append(env, name+"="+ts.Getenv(name))
	}
	program, err := lookIn(ts.Getenv("PATH"), "zoomies")
	ts.Check(err)
	cmd := exec.CommandContext(context.Background(), program, append([]string{"controller"}, args...)...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	pipe, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	listening, ended := make(chan string, 1), make(chan string, 1)
	go func() {
		var log strings.Builder
		for in := bufio.NewScanner(pipe); in.Scan(); {
			log.WriteString(in.Text() + "\n")
			var line struct{ Msg, Address string }
			if json.Unmarshal(in.Bytes(), &line) == nil && line.Msg == "listening" {
				listening <- line.Address
			}
		}
		_ = cmd.Wait()
		ended <- log.String()
	}()
	ts.Defer(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			ts.Logf("the controller did not stop")
		}
	})
	late := time.After(patience)
	select {
	case at := <-listening:
		ts.Setenv("URL", "http://"+at)
	case log := <-ended:
		ended <- ""
		ts.Fatalf("the controller ended:\n%s", log)
	case <-late:
		ts.Fatalf("the controller does not listen")
	}
	socket := serve.LocalSocket(ts.Getenv("DATA"))
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		if st, err := os.Stat(socket); err == nil && st.Mode().Perm() == 0o600 {
			tick.Stop()
			return
		}
		select {
		case <-tick.C:
		case <-late:
			ts.Fatalf("the controller does not answer its owner")
		}
	}
}

func lookIn(path, name string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if p := filepath.Join(dir, name); isFile(p) {
			return p, nil
		}
	}
	return "", errors.New("there is no " + name + " in the script's PATH")
}

func isFile(p string) bool {
	st, err := os.Stat(p)
	return err == nil && st.Mode().IsRegular()
}

// exits runs a command and wants its status to be the first argument.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits code command…")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = strings.TrimPrefix(exit.Error(), "exit status ")
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if code != args[0] {
		ts.Fatalf("%s ended with %s, want %s", strings.Join(args[1:], " "), code, args[0])
	}
}

// setenv sets a variable to the first line of the last command's output.
func setenv(ts *testscript.TestScript, _ bool, args []string) {
	line, _, _ := strings.Cut(ts.ReadFile("stdout"), "\n")
	if len(args) != 1 || line == "" {
		ts.Fatalf("usage: setenv NAME, after a command that printed something")
	}
	ts.Setenv(args[0], line)
}

// mode wants a file to have that mode.
func mode(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: mode 0600 file")
	}
	st, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", st.Mode().Perm()); got != args[0] {
		ts.Fatalf("the mode of %s is %s, want %s", args[1], got, args[0])
	}
}

// tellsOf runs a command while zoomies events listens, and wants an event of it.
func tellsOf(ts *testscript.TestScript, _ bool, args []string) {
	program, err := lookIn(ts.Getenv("PATH"), "zoomies")
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "events", "--output", "json")
	cmd.Env = []string{"HOME=" + ts.Getenv("HOME"), "XDG_CONFIG_HOME=" + ts.Getenv("XDG_CONFIG_HOME"), "ZOOMIES_DATA_DIR=" + ts.Getenv("DATA")}
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	in := bufio.NewScanner(out)
	for first := true; in.Scan(); first = false {
		var e struct{ ID, Type string }
		ts.Check(json.Unmarshal(in.Bytes(), &e))
		ts.Logf("event %s", in.Text())
		if first { // it listens
			ts.Check(ts.Exec(args[0], args[1:]...))
			continue
		}
		return
	}
	ts.Fatalf("no event came of %v", args)
}

// follows runs `zoomies audit tail --follow` and makes a change, again and again since nothing says that it listens, until a line of it
// matches the pattern.
func follows(ts *testscript.TestScript, _ bool, args []string) {
	program, err := lookIn(ts.Getenv("PATH"), "zoomies")
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "audit", "tail", "--follow")
	cmd.Env = []string{"HOME=" + ts.Getenv("HOME"), "XDG_CONFIG_HOME=" + ts.Getenv("XDG_CONFIG_HOME"), "ZOOMIES_DATA_DIR=" + ts.Getenv("DATA")}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	want := regexp.MustCompile(args[0])
	seen := make(chan string, 1)
	go func() {
		for in := bufio.NewScanner(out); in.Scan(); {
			if want.MatchString(in.Text()) {
				seen <- in.Text()
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for found := false; !found; {
		select {
		case line := <-seen:
			ts.Logf("followed: %s", line)
			found = true
		case <-again.C:
			ts.Check(ts.Exec(args[1], args[2:]...))
		case <-ctx.Done():
			ts.Fatalf("no entry of the log matched %s", want)
		}
	}
	cancel()
	if err := cmd.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		ts.Fatalf("it did not end well when it was interrupted: %v", err)
	}
}
