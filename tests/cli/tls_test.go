package cli

import (
	"crypto/tls"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// beyond are settings of a controller that other machines can reach.
func beyond(dir string) []string {
	return append(settings(dir), "ZOOMIES_LISTEN=0.0.0.0:0", "ZOOMIES_METRICS_PUBLIC=true")
}

func tlsGet(t *testing.T, conf *tls.Config, url string) (string, http.Header, error) {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr, Timeout: patience}).Get(url)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.Proto, resp.Header, err
}

var pinForm = regexp.MustCompile(`--ca-pin (sha256:[0-9a-f]{64})`)

// Beyond the loopback a controller serves TLS by itself; a host joins it with nothing but what `zoomies join-token` prints, goes on
// without any of that after a restart, and refuses another controller at the same address.
func TestAHostJoinsOverTLSByThePin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startController(t, beyond(dir))
	port := s.url[strings.LastIndex(s.url, ":"):]
	url := "https://127.0.0.1" + port
	proto, header, err := tlsGet(t, &tls.Config{InsecureSkipVerify: true}, url+"/healthz") // its form is asked about, not whose it is
	if err != nil || proto != "HTTP/2.0" || header.Get("Strict-Transport-Security") == "" {
		t.Errorf("%s, %v, %v", proto, header, err)
	}
	if _, _, err := tlsGet(t, nil, url+"/healthz"); err == nil {
		t.Error("the machine's own roots know the controller's authority")
	}
	if _, _, err := tlsGet(t, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}, url+"/healthz"); err == nil { // the refusal is the test
		t.Error("TLS 1.1 was served")
	}
	out, advice, code := run(t, beyond(dir), "join-token", "--host", "remote")
	m := pinForm.FindStringSubmatch(advice)
	if code != 0 || m == nil || !strings.Contains(advice, "--controller https://") || !strings.Contains(advice, "--name remote") || strings.Contains(advice, "zoojoin_") {
		t.Fatalf("join-token: exit %d, %s", code, advice)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	other := "sha256:" + strings.Repeat("ab", 32)
	stop, log := agentUntil(t, "another machine answers", "agent", "--controller", url, "--ca-pin", other, "--data-dir", state, "--name", "remote", "--token-file", token, "--backends", "process")
	stop()
	if raw, err := os.ReadFile(filepath.Join(state, "agent.json")); err == nil && strings.Contains(string(raw), `"host_id"`) {
		t.Fatalf("it joined in spite of its pin:\n%s", log())
	}
	stop, _ = agentUntil(t, "joined the controller", "agent", "--controller", url, "--ca-pin", m[1], "--data-dir", state, "--name", "remote", "--token-file", token, "--backends", "process")
	stop()
	raw, err := os.ReadFile(filepath.Join(state, "agent.json"))
	if err != nil || !strings.Contains(string(raw), m[1]) {
		t.Errorf("the pin was not kept: %v", err)
	}
	s.stop(t)

	// The next start finds address, pin and credential in agent.json; first it meets an impostor there.
	thief := startController(t, append(beyond(t.TempDir()), "ZOOMIES_LISTEN=0.0.0.0"+port))
	stop, _ = agentUntil(t, "another machine answers", "agent", "--data-dir", state, "--name", "remote", "--backends", "process")
	thief.stop(t)
	again := startController(t, append(beyond(dir), "ZOOMIES_LISTEN=0.0.0.0"+port))
	if st, err := os.Stat(filepath.Join(dir, "tls", "ca.key")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("ca.key: %v, %v", st, err)
	}
	await(t, "the host is healthy", func() bool {
		proto, _, err := tlsGet(t, &tls.Config{InsecureSkipVerify: true}, url+"/readyz")
		if err != nil || proto == "" {
			return false
		}
		return strings.Contains(metrics(t, url), `zoomies_hosts{condition="healthy"} 1`)
	})
	stop()
	again.stop(t)
	if strings.Contains(s.logs()+again.logs(), "PRIVATE KEY") {
		t.Error("a key is in the log")
	}
}

func metrics(t *testing.T, url string) string {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr, Timeout: patience}).Get(url + "/metrics")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return string(b)
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("not so: " + what)
		}
		<-time.After(200 * time.Millisecond)
	}
}

// agentUntil starts an agent and waits until it says so.
func agentUntil(t *testing.T, says string, args ...string) (stop func(), log func() string) {
	t.Helper()
	cmd := exec.Command(binary, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	file := filepath.Join(t.TempDir(), "agent.log")
	w, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	log = func() string {
		raw, _ := os.ReadFile(file)
		return string(raw)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		<-ended
	}
	t.Cleanup(stop)
	deadline := time.Now().Add(patience)
	for !strings.Contains(log(), says) {
		select {
		case <-ended:
			if !strings.Contains(log(), says) {
				t.Fatalf("the agent ended without %q:\n%s", says, log())
			}
			return stop, log
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("the agent does not say %q:\n%s", says, log())
		}
	}
	return stop, log
}

// How an unclaimed fleet is claimed is for its owner, on standard error, and no log line.
func TestAnUnclaimedFleetSaysHowToClaimIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startController(t, settings(dir))
	s.stop(t)
	if !strings.Contains(s.logs(), "\n  zoomies setup claim NAME\n") || !strings.Contains(s.logs(), filepath.Join(dir, "setup-token")) || strings.Contains(s.logs(), "zoosetup_") {
		t.Errorf("the notice is missing, or gives the token away:\n%s", s.logs())
	}
}
