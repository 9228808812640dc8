package e2e

import (
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
)

var (
	joinCommand = regexp.MustCompile(`(?m)^  zoomies (agent --controller https://\S+ --ca-pin \S+ --name \S+ --token-file) FILE$`)
	pinFlag     = regexp.MustCompile(`--ca-pin (sha256:[0-9a-f]{64})`)
)

// A controller that other machines reach: TLS by itself, a command line that knows it by its pin, and a host that joins by the command
// that is printed for it. GitHub is a pasted App, and cannot reach the controller: its jobs are found by polling.
func TestAFleetFromElsewhere(t *testing.T) {
	t.Parallel()
	address := elsewhere(t)
	o := newOperator(t)
	gh, number := o.github("octo")
	gh.AddRepository(number, "octo/app")
	o.controller("ZOOMIES_LISTEN="+net.JoinHostPort(address, "0"), "ZOOMIES_AGENT_EMBEDDED=false", "ZOOMIES_GITHUB_POLL_INTERVAL=10s")
	if !strings.HasPrefix(o.url, "https://"+address) {
		t.Fatalf("beyond the loopback the controller listens on %s", o.url)
	}

	// On the controller's machine: whose it is, and how others know it.
	token, advice := o.exits(0, "join-token", "--host", "builder")
	join, pin := joinCommand.FindStringSubmatch(advice), pinFlag.FindStringSubmatch(advice)
	if join == nil || pin == nil || !strings.Contains(advice, o.url) {
		t.Fatalf("zoomies join-token advises:\n%s", advice)
	}
	setup, err := os.ReadFile(o.data + "/setup-token")
	if err != nil {
		t.Fatal(err)
	}

	// Elsewhere there is no data folder, and no certificate but by the pin.
	elsewhere := *o
	elsewhere.env = append(append([]string{}, o.env...), "ZOOMIES_DATA_DIR="+t.TempDir())
	far := &elsewhere
	far.exits(6, "setup", "show", "--server", o.url)
	far.exits(6, "setup", "show", "--server", o.url, "--pin", "sha256:"+strings.Repeat("ab", 32))
	far.run("setup", "claim", "ada", "--password-file", o.path("password"), "--setup-token-file", o.file("setup", string(setup)), "--server", o.url, "--pin", pin[1])
	far.run("login", "--server", o.url, "--pin", pin[1], "--user", "ada", "--password-file", o.path("password"), "--name", "far")
	far.says([]string{"far", o.url}, "context", "list")

	far.run("installations", "add", "--base-url", gh.URL(), "--app-id", strconv.FormatInt(gh.App().ID, 10), "--installation-id", strconv.FormatInt(number, 10),
		"--private-key-file", o.file("app.pem", string(gh.App().PrivateKeyPEM)))
	far.createPool("linux", "octo", "--labels", "linux-small", "--cpus", "1", "--memory-mb", "512")

	// The new host, word for word but for where this machine keeps the test's things.
	args := append(strings.Fields(join[1]), o.file("builder.token", token), "--data-dir", t.TempDir(), "--podman-socket", engine.Socket())
	agent := far.start(nil, args...)
	host := far.until("the host is healthy", func(r row) bool { return r.text("name") == "builder" && r.text("health") == "healthy" }, "hosts", "list")

	id := far.queue(gh, "build", "linux-small", "echo from far away")
	finish(t, gh, id, "success")
	job := far.job("build", "completed")
	far.says([]string{"job_completed"}, "jobs", "timeline", job)
	far.putAway(gh)
	b := podman.New(podman.Options{Socket: engine.Socket(), HostID: host.text("id")})
	eventually(t, "no container is left", func() bool { ws, err := b.List(t.Context()); return err == nil && len(ws) == 0 })
	far.allRight()

	// The same command once more is refused: the token worked once.
	thief := far.start(nil, append(append([]string{}, args...), "--data-dir", t.TempDir())...)
	eventually(t, "the second use of the token is refused", thief.ended)
	if thief.err == nil {
		t.Errorf("a spent token was taken:\n%s", thief.text())
	}
	far.says([]string{"yes"}, "audit", "verify")
	made := far.rows("audit", "tail", "--action", "create-installation")
	if len(made) != 1 || !strings.HasPrefix(made[0].text("address"), address) || !strings.HasPrefix(made[0].text("actor_name"), "ada/login-") {
		t.Errorf("the audit log has not where the change came from, and by whom: %v", made)
	}
	o.keepsSecrets()
	if strings.Contains(agent.text(), strings.TrimSpace(token)) {
		t.Error("the join token is in the agent's log")
	}
}

// elsewhere is an address of this machine by which others reach it.
func elsewhere(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no IPv4 address but the loopback: no controller can be reached from elsewhere")
	return ""
}
