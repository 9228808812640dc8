package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend/fake"
)

// A45: the host restarts in the middle of a job. The engine says "exited, 0", which is no
// success.
func TestARebootMidJobIsNoSuccess(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.ctl.offer(createTask("run_2"))
		r.after(time.Minute)
		r.ctl.deaf = true // so that the ends below are not acknowledged before the reboot
		r.engine.Exit("run_2", 0)
		r.after(time.Minute)
		r.stop()
		r.engine.Reboot()
		r.after(time.Minute)
		r.cfg.Machine = machine{boot: time.Now()}
		r.ctl.deaf = false
		r.start()
		r.after(time.Minute)
		if got := r.ctl.last("run_1"); got.State != stateFailed || !strings.Contains(got.Message, "restarted") {
			t.Errorf("the cut job: %+v", got)
		}
		if got := r.ctl.last("run_2"); got.State != stateRemoved {
			t.Errorf("the job that had ended before: %+v", got)
		}
		r.wantCount(0)
		r.ctl.offer(createTask("run_3"))
		synctest.Wait()
		r.wantOK("tsk_create_run_3")
	})
}

func TestHowRunnersEnd(t *testing.T) {
	const deprecated = "\nAn error occurred: Runner version v2.283.3 is deprecated and cannot receive messages.\nRunner listener exit with terminated error, stop the service, no retry needed.\n"
	for name, tt := range map[string]struct {
		log   string
		code  int
		oom   bool
		state string
		says  string
	}{
		"done":                    {"Job build completed with result: Succeeded\n", 0, false, stateRemoved, ""},
		"the daemon never came":   {"", ExitDaemonSilent, false, stateFailed, "daemon did not answer"},
		"a setting is unusable":   {"", ExitBadSetting, false, stateFailed, "setting"},
		"out of memory":           {"", 137, true, stateFailed, "memory"},
		"an exit code":            {"boom", 2, false, stateFailed, "exit code 2; its log says more"},
		"killed":                  {"", 137, false, stateFailed, "exit code 137"},
		"A25: deprecated, exit 0": {deprecated, 0, false, stateFailed, "Runner version is deprecated"},
		"A25: deprecated, exit 1": {deprecated, 1, false, stateFailed, "Runner version is deprecated"},
		"terminated, exit 0":      {"Runner listener exit with terminated error, stop the service, no retry needed.\n", 0, false, stateFailed, "error of its own"},
		// A24: GitHub deletes the registration of a runner that waits too long.
		"registration deleted": {"Failed to create a session. The runner registration has been deleted from the server, please re-configure.\n", 1, false, stateRemoved, "deleted the registration"},
		"session exists":       {"A session for this runner already exists.\n", 1, false, stateFailed, "session"},
		"a job of that name":   {"Running job: Runner version v1 is deprecated and cannot receive messages\nJob Runner version v1 is deprecated and cannot receive messages completed with result: Failed\n", 0, false, stateRemoved, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				r.running("run_1")
				r.engine.Print("run_1", tt.log)
				if tt.oom {
					r.engine.OOM("run_1")
				} else {
					r.engine.Exit("run_1", tt.code)
				}
				r.after(time.Second)
				got := r.ctl.last("run_1")
				if got.State != tt.state || !strings.Contains(got.Message, tt.says) || (tt.says == "" && got.Message != "") {
					t.Errorf("said %s: %q", got.State, got.Message)
				}
				if got.ExitCode == nil || *got.ExitCode != tt.code || got.OOMKilled != tt.oom {
					t.Errorf("exit code %v, oom %v", got.ExitCode, got.OOMKilled)
				}
			})
		})
	}
}

func TestALogThatCannotBeReadHidesNoEnd(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		r.running("run_1")
		r.engine.Inject(fake.OpLogs, fake.Fault{Delay: time.Hour})
		r.engine.Exit("run_1", 1)
		r.after(10 * time.Second)
		if got := r.ctl.last("run_1"); got.State != stateFailed || !strings.Contains(got.Message, "exit code 1") {
			t.Errorf("said %+v", got)
		}
	})
}
