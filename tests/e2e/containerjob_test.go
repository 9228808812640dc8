package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/backendtest"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/demo"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// A45: a workflow with `container:` and `services:` works in a pool with a Podman of its own, with root and without. The
// real runner makes these calls of Docker's API for such a job, with these mounts; the simulated one makes none, so the
// test does, through the socket that the runner was given.
func TestContainerAndServicesOfAWorkflow(t *testing.T) {
	t.Parallel()
	if err := demo.LoadImage(t.Context(), engine.Socket(), daemonFile); err != nil {
		t.Fatalf("run `make bin/podman-daemon.tar` first: %v", err)
	}
	f := start(t, func(o *demo.Options) {
		o.Pool = func(p *store.Pool) { p.Daemon, p.CPUs, p.MemoryMB = "podman", 0, 0 }
	})
	// Before it calls the daemon the runner makes these folders; afterwards the job looks for what its container left,
	// and asks for the service on localhost.
	const script = `cd ` + backend.WorkDir + ` && mkdir -p _temp/_github_home _temp/_github_workflow _actions _tool repo/repo &&
echo 'echo from the job, $(pwd), $HOME' >_temp/step.sh && touch ready && while [ ! -f seen ]; do sleep 0.2; done
cat repo/repo/out; echo the service says $(wget -q -O - http://localhost:8099/); touch asked; while [ ! -f done ]; do sleep 0.2; done`
	id := f.GitHub.QueueJob(job("in-a-container", script))
	if _, err := f.GitHub.WaitJob(t.Context(), id, "in_progress"); err != nil {
		t.Fatal(err)
	}
	runner := ""
	eventually(t, "the job has a runner", func() bool {
		ws, err := f.Agent().Backend().List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range ws {
			if w.Role == backend.RoleRunner && w.Phase == backend.Running {
				runner = w.Name
			}
		}
		return runner != ""
	})
	eventually(t, "the folders are there", func() bool {
		return inRunner(t, runner, "ls "+backend.WorkDir+"/ready") == nil
	})
	d := dockerAt(t, runner)
	d.load("localhost/zoomies-job:latest")

	const label = "3f5a31"
	d.call(http.MethodGet, "/version", nil, nil)
	d.call(http.MethodPost, "/networks/prune?filters="+url.QueryEscape(`{"label":["`+label+`"]}`), nil, nil)
	network := "github_network_" + label
	d.call(http.MethodPost, "/networks/create", map[string]any{"Name": network, "Labels": map[string]string{label: ""}}, nil)
	service := d.run("redis", map[string]any{
		"Image": "localhost/zoomies-job:latest", "Labels": map[string]string{label: ""},
		"Cmd":          []string{"sh", "-c", "mkdir -p /www && echo pong >/www/index.html && exec httpd -f -p 80 -h /www"},
		"ExposedPorts": map[string]any{"80/tcp": map[string]any{}},
		"HostConfig": map[string]any{
			"NetworkMode":  network,
			"PortBindings": map[string]any{"80/tcp": []map[string]string{{"HostPort": "8099"}}},
		},
		"NetworkingConfig": map[string]any{"EndpointsConfig": map[string]any{network: map[string]any{"Aliases": []string{"redis"}}}},
	})
	container := d.run("job", map[string]any{
		"Image": "localhost/zoomies-job:latest", "Labels": map[string]string{label: ""},
		"WorkingDir": "/__w/repo/repo", "Env": []string{"HOME=/github/home", "GITHUB_ACTIONS=true", "CI=true"},
		"Entrypoint": []string{"tail"}, "Cmd": []string{"-f", "/dev/null"},
		"HostConfig": map[string]any{"NetworkMode": network, "Binds": []string{
			"/var/run/docker.sock:/var/run/docker.sock",
			backend.WorkDir + ":/__w",
			backend.ExternalsDir + ":/__e:ro",
			backend.WorkDir + "/_temp:/__w/_temp",
			backend.WorkDir + "/_actions:/__w/_actions",
			backend.WorkDir + "/_tool:/__w/_tool",
			backend.WorkDir + "/_temp/_github_home:/github/home",
			backend.WorkDir + "/_temp/_github_workflow:/github/workflow",
		}},
		"NetworkingConfig": map[string]any{"EndpointsConfig": map[string]any{network: map[string]any{}}},
	})

	if got := d.exec(container, "sh", "-e", "/__w/_temp/step.sh"); got != "from the job, /__w/repo/repo, /github/home" {
		t.Errorf("the step says %q", got)
	}
	if got := d.exec(container, "/__e/node24/bin/node", "index.js"); got != "node ran index.js" {
		t.Errorf("an action's Node.js says %q", got)
	}
	if got := d.exec(container, "sh", "-c", "test -S /var/run/docker.sock && echo yes"); got != "yes" {
		t.Errorf("the daemon's socket is in the container: %q", got)
	}
	eventually(t, "the service answers by its name", func() bool {
		return d.exec(container, "sh", "-c", "wget -q -O - http://redis/ || true") == "pong"
	})
	d.exec(container, "sh", "-c", "echo the container was here >out; echo >/__w/seen")
	eventually(t, "the job has seen the service", func() bool {
		return strings.Contains(d.exec(container, "ls", "/__w"), "asked")
	})
	// The runner puts away what it made before the job ends.
	for _, id := range []string{container, service} {
		d.call(http.MethodDelete, "/containers/"+id+"?force=1", nil, nil)
	}
	d.call(http.MethodDelete, "/networks/"+network, nil, nil)
	var left []any
	d.call(http.MethodGet, "/containers/json?all=1", nil, &left)
	if len(left) != 0 {
		t.Errorf("after their removal there are %v", left)
	}
	if err := inRunner(t, runner, "touch "+backend.WorkDir+"/done"); err != nil {
		t.Fatal(err)
	}
	j := finish(t, f.GitHub, id, "success")
	for _, want := range []string{"the container was here", "the service says pong"} {
		if !strings.Contains(j.Log, want) {
			t.Errorf("the job's log lacks %q:\n%s", want, j.Log)
		}
	}
	nothingLeft(t, f)
	eventually(t, "the job's volumes are gone", func() bool {
		out, err := exec.CommandContext(t.Context(), "podman", append(engine.Args(), "volume", "ls", "-q")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return !strings.Contains(string(out), runner)
	})
}

// inRunner runs a shell command in a runner's container.
func inRunner(t *testing.T, runner, script string) error {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "podman", append(engine.Args(), "exec", runner, "sh", "-c", script)...)
	cmd.Env = engine.Env()
	return cmd.Run()
}

// dockerd is a daemon's API, spoken as the docker command does.
type dockerd struct {
	*testing.T
	client *http.Client
}

// dockerAt reaches the daemon of a runner through the socket's volume.
func dockerAt(t *testing.T, runner string) dockerd {
	t.Helper()
	args := append(engine.Args(), "volume", "inspect", "--format", "{{.Mountpoint}}", runner+"-socket")
	cmd := exec.CommandContext(t.Context(), "podman", args...)
	cmd.Env = engine.Env()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	// A socket's path may have 107 bytes at most, and a volume's is easily longer.
	socket := backend.SocketIn(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()))
	return dockerd{t, &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}}
}

// send is one request; it fails the test when the daemon refuses.
func (d dockerd) send(method, path, kind string, body io.Reader) []byte {
	d.Helper()
	request, err := http.NewRequestWithContext(d.Context(), method, "http://daemon/v1.41"+path, body)
	if err != nil {
		d.Fatal(err)
	}
	request.Header.Set("Content-Type", kind)
	answer, err := d.client.Do(request)
	if err != nil {
		d.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode >= http.StatusBadRequest {
		d.Fatalf("%s %s: %s %v: %s", method, path, answer.Status, err, text)
	}
	return text
}

// call sends and reads JSON.
func (d dockerd) call(method, path string, in, out any) {
	d.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		d.Fatal(err)
	}
	text := d.send(method, path, "application/json", bytes.NewReader(body))
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			d.Fatalf("%s %s: %v: %s", method, path, err, text)
		}
	}
}

// load puts an image of BusyBox into the daemon, where the runner would pull.
func (d dockerd) load(ref string) {
	d.Helper()
	files, err := backendtest.BusyboxFiles()
	if err != nil {
		d.Fatal(err)
	}
	var archive bytes.Buffer
	if err := backendtest.WriteImage(&archive, ref, v1.Config{Env: []string{"PATH=/bin"}}, files); err != nil {
		d.Fatal(err)
	}
	d.send(http.MethodPost, "/images/load", "application/x-tar", &archive)
}

// run creates and starts a container.
func (d dockerd) run(name string, config map[string]any) (id string) {
	d.Helper()
	var made struct{ ID string }
	d.call(http.MethodPost, "/containers/create?name="+name, config, &made)
	d.call(http.MethodPost, "/containers/"+made.ID+"/start", nil, nil)
	var listed []struct{ ID string }
	filters := url.QueryEscape(`{"id":["` + made.ID + `"],"status":["running"]}`)
	d.call(http.MethodGet, "/containers/json?all=1&filters="+filters, nil, &listed)
	if len(listed) != 1 {
		d.Fatalf("container %s does not run: %s", name, d.send(http.MethodGet, "/containers/"+made.ID+"/logs?stdout=1&stderr=1", "", http.NoBody))
	}
	return made.ID
}

// exec runs a command in a container and returns what it says.
func (d dockerd) exec(id string, argv ...string) string {
	d.Helper()
	var session struct{ ID string }
	d.call(http.MethodPost, "/containers/"+id+"/exec", map[string]any{
		"Cmd": argv, "AttachStdout": true, "AttachStderr": true, "WorkingDir": "/__w/repo/repo",
	}, &session)
	stream := d.send(http.MethodPost, "/exec/"+session.ID+"/start", "application/json", strings.NewReader(`{"Detach":false,"Tty":false}`))
	var said strings.Builder
	for len(stream) >= 8 { // each piece has a header of 8 bytes, the last four its length
		n := min(int(stream[4])<<24|int(stream[5])<<16|int(stream[6])<<8|int(stream[7]), len(stream)-8)
		said.Write(stream[8 : 8+n])
		stream = stream[8+n:]
	}
	var state struct{ ExitCode int }
	d.call(http.MethodGet, "/exec/"+session.ID+"/json", nil, &state)
	if state.ExitCode != 0 {
		d.Fatalf("%q ended with code %d: %s", argv, state.ExitCode, said.String())
	}
	return strings.TrimSpace(said.String())
}
