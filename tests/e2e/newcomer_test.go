package e2e

import (
	"strings"
	"testing"

	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// A newcomer's way from an empty machine to finished jobs: the binary, an empty folder, and nothing but commands.
func TestANewcomersWayToAFinishedJob(t *testing.T) {
	t.Parallel()
	o := newOperator(t)
	gh, _ := o.github("octo")
	o.controller("ZOOMIES_LISTEN=127.0.0.1:0", "ZOOMIES_AGENT_PODMAN_SOCKET="+engine.Socket())

	// The fleet is claimed once, and spoken to as from elsewhere.
	o.exits(4, "pools", "list", "--server", o.url)
	o.run("setup", "claim", "ada", "--password-file", o.path("password"))
	o.exits(5, "setup", "claim", "eve", "--password-file", o.path("password"))
	o.run("login", "--server", o.url, "--user", "ada", "--password-file", o.path("password"), "--name", "fleet")
	o.says([]string{"ada", "platform"}, "sessions", "whoami")

	o.connect(gh, nil, "--organization", "octo", "--public-url", o.url, "--name", "Our Fleet")
	in := o.rows("installations", "list")[0]
	gh.AddRepository(int64(in["installation_id"].(float64)), "octo/app")
	if check := o.run("installations", "check", in.text("name")); strings.Contains(check, "warning") || strings.Contains(check, "error") {
		t.Errorf("a new installation is not all right:\n%s", check)
	}
	o.createPool("linux", "octo", "--labels", "linux-small", "--cpus", "1", "--memory-mb", "512")
	o.until("the machine is a healthy host", func(r row) bool { return r.text("health") == "healthy" }, "hosts", "list")

	// A job that nothing here runs waits, and the fleet says what for.
	o.queue(gh, "forlorn", "gpu", "true")
	forlorn := o.job("forlorn", "queued")
	if e := o.says([]string{"linux"}, "jobs", "explain", forlorn); !strings.Contains(e, "gpu") {
		t.Errorf("the explanation does not name the label that is missing:\n%s", e)
	}
	o.run("jobs", "cancel", forlorn)
	o.job("forlorn", "completed")

	// A job runs, and its output shows while it does.
	github := o.queue(gh, "build", "linux-small", "echo it has begun; while [ ! -f /tmp/go ]; do sleep 0.1; done; echo it is over")
	id := o.job("build", "in_progress")
	o.run("jobs", "explain", id)
	j := o.until("the job has its runner", func(r row) bool { return r.text("id") == id && r.text("runner_id") != "" }, "jobs", "list")
	runner := j.text("runner_name")
	logs := o.start(nil, "runners", "logs", "-f", runner)
	eventually(t, "the job's output is shown while it runs", func() bool { return strings.Contains(logs.text(), "it has begun") })
	if logs.ended() || strings.Contains(logs.text(), "it is over") || gh.Job(github).Status != simgithub.StatusInProgress {
		t.Errorf("the output was not live:\n%s", logs.text())
	}
	if err := inRunner(t, runner, ": > /tmp/go"); err != nil {
		t.Fatalf("cannot let the job go on: %v", err)
	}
	finish(t, gh, github, "success")
	eventually(t, "the logs end with the runner", logs.ended)
	if logs.err != nil || !strings.Contains(logs.text(), "it is over") {
		t.Errorf("zoomies runners logs: %v\n%s", logs.err, logs.text())
	}
	o.job("build", "completed")
	o.says([]string{"queued", "container_started", "registered", "job_started", "job_completed"}, "jobs", "timeline", id)

	// Again, because they can.
	o.run("jobs", "rerun", id)
	again := o.until("the job is there a second time", func(r row) bool {
		return r.text("name") == "build" && r.text("id") != id && r.text("runner_name") != ""
	}, "jobs", "list")
	eventually(t, "the second one may end, too", func() bool { return inRunner(t, again.text("runner_name"), ": > /tmp/go") == nil })
	o.until("it has", func(r row) bool { return r.text("id") == again.text("id") && r.text("conclusion") == "success" }, "jobs", "list")
	_, errs := o.exits(5, "jobs", "cancel", id)
	if !strings.Contains(errs, "GitHub refused") {
		t.Errorf("a job that is over was cancelled:\n%s", errs)
	}

	o.putAway(gh)
	if n := len(o.rows("runners", "list")); n != 2 {
		t.Errorf("%d runners were made for two jobs", n)
	}
	o.allRight()

	// Whoever changed something is in the log, and nothing secret is.
	o.says([]string{"yes"}, "audit", "verify")
	by := map[string]string{}
	for _, r := range o.rows("audit", "tail") {
		by[r.text("action")] = r.text("actor_kind") + " " + r.text("actor_name")
	}
	for action, actor := range map[string]string{
		"claim-fleet": "local", "sign-in": "user ada", "create-token": "user ada", "sign-out": "user ada", "start-manifest": "token ada/login-",
		"manifest-created": "token ada/login-", "manifest-installed": "token ada/login-", "check-installation": "token ada/login-",
		"create-pool": "token ada/login-", "cancel-job": "token ada/login-", "rerun-job": "token ada/login-",
	} {
		if !strings.HasPrefix(by[action], actor) {
			t.Errorf("%s was done by %q, the audit log says, and it was %s", action, by[action], actor)
		}
		delete(by, action)
	}
	if len(by) > 0 {
		t.Errorf("the audit log has what nobody did: %v", by)
	}
	o.keepsSecrets()
}

// queue queues a job of octo/app at GitHub, and returns its number there.
func (o *operator) queue(gh *simgithub.Server, name, label, run string) int64 {
	return gh.QueueJob(simgithub.JobSpec{
		Repository: "octo/app", Name: name, Workflow: "ci", Labels: []string{"self-hosted", label}, Steps: []simgithub.Step{{Name: "run", Run: run}},
	})
}

// job waits until the fleet lists a job of that name in that state, and returns its ID.
func (o *operator) job(name, state string) string {
	o.Helper()
	return o.until(name+" is "+state, func(r row) bool { return r.text("name") == name && r.text("state") == state }, "jobs", "list").text("id")
}

// putAway waits until the fleet lists no runner that lives, and neither GitHub nor Podman has anything left of one.
func (o *operator) putAway(gh *simgithub.Server) {
	o.Helper()
	eventually(o.T, "no runner is left", func() bool {
		return strings.TrimSpace(o.run("runners", "list", "--live", "--quiet")) == "" && len(gh.Runners()) == 0
	})
}

// allRight waits until `zoomies status` ends with 0: a pass of the fleet after the last trouble.
func (o *operator) allRight() {
	o.Helper()
	eventually(o.T, "the fleet is all right", func() bool {
		code, out, _ := o.ends("status")
		return code == 0 && strings.HasPrefix(out, "OK ")
	})
}

// keepsSecrets wants no secret of the operator's in what the controller logged.
func (o *operator) keepsSecrets() {
	o.Helper()
	for _, secret := range []string{password, "zoo_", "zoojoin_", "zooagent_", "zoosetup_", "PRIVATE KEY"} {
		if strings.Contains(o.log.text(), secret) {
			o.Errorf("%q is in the controller's log", secret)
		}
	}
}
