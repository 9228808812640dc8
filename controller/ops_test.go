package controller

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/metrics"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/store"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// get asks the controller and returns the status and the body.
func (r *rig) get(path string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.web.URL+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	resp, err := r.http.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// Two controllers over one database: the one whose lease was taken says so, goes on saying so, and is not ready.
func TestLostLeaseIsSaidAndStays(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	if status, body := r.get("/readyz"); status != http.StatusOK {
		t.Fatalf("not ready: %d %s", status, body)
	}
	c := r.c()
	c.renewLease(t.Context())
	if err := r.st.AcquireLease(t.Context(), store.Holder{ID: "hld_other", Host: "elsewhere"}, LeaseTTL, true); err != nil {
		t.Fatal(err)
	}
	c.renewLease(t.Context())
	if err := r.st.ReleaseLease(t.Context(), "hld_other"); err != nil {
		t.Fatal(err)
	}
	c.renewLease(t.Context())
	status, body := r.get("/readyz")
	if status != http.StatusServiceUnavailable || !strings.Contains(body, problems.LeaseLost.String()) {
		t.Errorf("/readyz answers %d %s", status, body)
	}
	if _, page := r.get("/metrics"); !strings.Contains(page, metrics.Problems+`{code="`+problems.LeaseLost.String()+`"} 1`) {
		t.Error("the problem is not among the metrics")
	}
	if status, _ := r.get("/healthz"); status != http.StatusOK {
		t.Errorf("/healthz answers %d", status)
	}
}

// A controller that has lost its database stands down: it starts no runner and hands out no task, or two of them would work
// against each other.
func TestControllerThatLostItsLeaseStandsDown(t *testing.T) {
	t.Parallel()
	r, _, h := noAgents(t, nil)
	c := r.c()
	if err := r.st.AcquireLease(t.Context(), store.Holder{ID: "hld_other", Host: "elsewhere"}, LeaseTTL, true); err != nil {
		t.Fatal(err)
	}
	c.renewLease(t.Context())
	r.job("ok")
	if err := r.gh.WaitDeliveries(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ds := r.gh.Deliveries(); ds[len(ds)-1].Status != http.StatusServiceUnavailable {
		t.Errorf("a delivery is answered with %d", ds[len(ds)-1].Status)
	}
	if _, err := c.Agents().Poll(t.Context(), h.cred, 0); !errors.Is(err, errStoodDown) {
		t.Errorf("a poll is answered with %v", err)
	}
	r.settle(0)
	if n := len(r.runners()); n != 0 {
		t.Errorf("%d runners were made", n)
	}
}

// What only a test would call a canary: no key, token or JIT configuration reaches a log, a metric, an answer or a task's result.
func TestNoSecretLeaks(t *testing.T) {
	t.Parallel()
	r, _ := fleet(t, rigOptions{}, nil)
	const canary = "canary-7f3a9c"
	if _, err := r.c().Agents().Heartbeat(t.Context(), protocol.Credential{HostID: "hst_x", Token: canary}, protocol.Heartbeat{}); err == nil {
		t.Fatal("an unknown token was accepted")
	}
	r.post(delivery{body: []byte(`{}`), secret: canary})
	out := simgithub.Outage("POST", "/orgs/acme/actions/runners/generate-jitconfig")
	out.Times = 1
	r.gh.Inject(out)
	r.completed(r.job("ok"), "success")
	r.completed(r.job("exit 1"), "failure")
	r.nothingLeft()
	var results strings.Builder
	for _, x := range r.runners() {
		results.WriteString(x.Message + x.Reason)
		ts, err := r.st.Tasks(t.Context(), x.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range ts {
			results.WriteString(task.Result + string(task.Payload)) // the payload of an ended task is gone
		}
	}
	_, page := r.get("/metrics")
	_, ready := r.get("/readyz")
	app := r.gh.App()
	key := strings.Split(string(app.PrivateKeyPEM), "\n")[1]
	for name, text := range map[string]string{"the log": r.log.String(), "the metrics": page, "/readyz": ready, "tasks and runners": results.String()} {
		for what, secret := range map[string]string{
			"the canary": canary, "the App's key": key, "the webhook's secret": app.WebhookSecret, "a join token": "zoojoin_", "an agent token": "zooagent_",
			"an installation token": "ghs_", "a web token": "eyJ", "a runner's credential": "OAuthAccessToken", "a JIT configuration": "LnJ1bm5lci", // base64 of ".runner"
		} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in %s", what, name)
			}
		}
	}
}

// rented are the metrics of machines, which a fleet that rents none does not have.
var rented = map[string]bool{metrics.Machines: true, metrics.MachineStage: true, metrics.MachinesFailed: true, metrics.ProviderHeld: true}

// Every metric that is declared has data once a fleet has lived a little.
func TestEveryDeclaredMetricIsShown(t *testing.T) {
	t.Parallel()
	r, p := fleet(t, rigOptions{}, func(p *store.Pool) { p.Max = 1 })
	r.completed(r.job("ok"), "success")
	r.nothingLeft()
	running := r.job("wait")
	r.waitJob(running, simgithub.StatusInProgress, "")
	r.job("ok") // cannot have a runner
	c := r.c()
	c.taskRequeued(store.Task{Kind: "create_runner"})
	c.taskDropped(store.Task{Kind: "create_runner"})
	c.problems.Raise("x", problems.Problem{Code: problems.LeaseLost})
	if _, _, err := r.gh.Register("acme", namePrefix(c.fleet)+"acme-ghost", "zoomies"); err != nil {
		t.Fatal(err)
	}
	if err := c.reapInstallation(t.Context(), r.installation(p.InstallationID)); err != nil {
		t.Fatal(err)
	}
	c.noteGitHub(t.Context(), r.installation(p.InstallationID), io.ErrUnexpectedEOF)
	if err := r.st.SetHostCordoned(t.Context(), r.hostRow("host-1").ID, true); err != nil {
		t.Fatal(err)
	}
	p.Max = 2 // and no host to take the second
	if err := r.st.UpdatePool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r.until("every metric is shown", func() bool {
		if _, err := c.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, page := r.get("/metrics")
		for _, d := range metrics.Table {
			if rented[d.Name] {
				continue // TestAFleetWithoutHostsRentsThem has what they count
			}
			if !strings.Contains(page, "\n"+d.Name) {
				return false
			}
		}
		for _, stage := range []string{metrics.StageQueuedToTask, metrics.StageTaskToContainer, metrics.StageQueuedToRunning} {
			if !strings.Contains(page, `stage="`+stage+`"`) {
				return false
			}
		}
		return true
	})
	r.finishJob(running)
}

// A pool that is not ephemeral: its runner takes one job after the other, and is deregistered, by its name, before it goes.
func TestPersistentRunnerIsFreedAndDeregistered(t *testing.T) {
	t.Parallel()
	r, _, h := noAgents(t, func(p *store.Pool) { p.Ephemeral, p.IdleTimeout = false, 0 })
	id := r.job("wait")
	create := h.task()
	if create.Create.Registration == nil || create.Create.JITConfig != "" || create.Create.Registration.Token == "" {
		t.Fatal("a runner that stays needs a registration token")
	}
	if err := h.answer(create, true, ""); err != nil {
		t.Fatal(err)
	}
	row := r.runner(store.RunnerRegistering)
	number, _, err := r.gh.Register("acme", row.Name, "zoomies") // what its config.sh does
	if err != nil {
		t.Fatal(err)
	}
	r.deliver("", payload("acme/widgets", "in_progress", map[string]any{"id": id, "runner_name": row.Name}), "")
	r.runner(store.RunnerBusy)
	r.gh.SetWebhookURL("")
	inj := r.gh.Inject(simgithub.Fault{Method: "DELETE", Path: "/orgs/acme/actions/runners/*", Times: -1, Status: 422, Body: map[string]string{"message": "still running a job"}})
	r.deliver("", payload("acme/widgets", "completed", map[string]any{"id": id, "runner_name": row.Name, "conclusion": "success"}), "")
	r.until("GitHub refused to delete the runner, which has a job again", func() bool {
		return inj.Hits() > 0 && r.runner(store.RunnerBusy, store.RunnerIdle).State == store.RunnerBusy
	})
	inj.Remove()
	r.clock.advance(goneGrace + time.Second)
	h.beat()
	if _, _, err := r.c().transition(t.Context(), row.ID, store.RunnerIdle, store.Change{}); err != nil {
		t.Fatal(err)
	}
	rm := h.task()
	if rm.Kind != protocol.TaskRemove {
		t.Fatalf("asked for %s", rm.Kind)
	}
	for _, x := range r.gh.Runners() {
		if x.ID == number {
			t.Error("the workload is removed before its registration")
		}
	}
	if err := h.answer(rm, true, ""); err != nil {
		t.Fatal(err)
	}
	r.nothingLeft()
}

// The answers of the health routes are JSON, whatever they say.
func TestHealthIsJSON(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{})
	for _, path := range []string{"/healthz", "/readyz"} {
		status, body := r.get(path)
		if status != http.StatusOK || !json.Valid([]byte(body)) {
			t.Errorf("%s answers %d %s", path, status, body)
		}
	}
	if status, _ := r.get("/nothing"); status != http.StatusNotFound {
		t.Errorf("an unknown route answers %d", status)
	}
}
