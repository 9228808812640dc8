package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The results of a job, in the real runner's words.
const (
	resultSucceeded = "Succeeded"
	resultFailed    = "Failed"
	resultCanceled  = "Canceled"
)

// pipeGrace is how long a step's output is read after the step has ended, when something it left behind holds the pipe.
const pipeGrace = 2 * time.Second

// execution is the job that the runner has.
type execution struct {
	l        *listener
	job      *runnerJob
	ctx      context.Context // ends when the job is cancelled or the runner shuts down
	cancel   context.CancelCauseFunc
	report   context.Context // outlives ctx: the end must be told
	log      *logStream
	tracking string
	work     string
}

// start prepares a job's execution; run runs it.
func (l *listener) start(ctx context.Context, j *runnerJob) *execution {
	e := &execution{l: l, job: j, report: context.WithoutCancel(ctx), tracking: "github_" + rand.Text()}
	e.ctx, e.cancel = context.WithCancelCause(ctx)
	e.work = filepath.Join(l.dir, l.cfg.WorkFolder, path.Base(j.Repository))
	return e
}

// run runs every step, tells the server the result and leaves no process behind.
func (e *execution) run() {
	defer e.cancel(nil)
	e.l.out.stampedf("Running job: %s", e.job.Name)
	e.log = newLogStream(func(p []byte) error { return e.l.srv.appendLog(e.report, e.job.ID, p) })
	result := e.steps()
	if errors.Is(context.Cause(e.ctx), errShutdown) {
		e.say("##[error]The runner has received a shutdown signal. This can happen when the runner service is stopped, or a manually started runner is canceled.")
	}
	e.killOrphans()
	e.log.close()
	if err := e.l.srv.finish(e.report, e.job.ID, result); err != nil {
		e.l.out.errorf("cannot report the result: %v", err)
	}
	e.l.out.stampedf("Job %s completed with result: %s", e.job.Name, result)
}

// say writes a line of the runner's own to the job's log and the terminal.
func (e *execution) say(line string) {
	e.write([]byte(line + "\n"))
}

func (e *execution) write(p []byte) {
	_, _ = e.l.out.Write(p) // a closed terminal does not end a job
	e.log.write(p)
}

func (e *execution) steps() string {
	temp, err := filepath.Abs(filepath.Join(e.l.dir, e.l.cfg.WorkFolder, "_temp"))
	if err == nil {
		err = errors.Join(os.MkdirAll(e.work, 0o755), os.MkdirAll(temp, 0o755))
	}
	if err != nil {
		e.say("##[error]cannot make the work directory: " + err.Error())
		return resultFailed
	}
	result := resultSucceeded
	for i, st := range e.job.Steps {
		if result != resultSucceeded {
			e.step(i, "completed", map[string]string{resultFailed: "skipped", resultCanceled: "cancelled"}[result])
			continue
		}
		e.step(i, "in_progress", "")
		first, _, _ := strings.Cut(strings.TrimSpace(st.Run), "\n")
		e.log.write([]byte("##[group]Run " + first + "\n##[endgroup]\n"))
		err := e.shell(temp, i, st)
		var exit *exec.ExitError
		switch {
		case e.ctx.Err() != nil:
			result = resultCanceled
			e.say("##[error]The operation was canceled.")
			e.step(i, "completed", "cancelled")
		case err == nil:
			e.step(i, "completed", "success")
		case errors.As(err, &exit):
			result = resultFailed
			e.say(fmt.Sprintf("##[error]Process completed with exit code %d.", exitCode(exit)))
			e.step(i, "completed", "failure")
		default:
			result = resultFailed
			e.say("##[error]" + err.Error())
			e.step(i, "completed", "failure")
		}
	}
	if e.ctx.Err() != nil {
		return resultCanceled
	}
	return result
}

// exitCode is a process's code as a shell would say it.
func exitCode(e *exec.ExitError) int {
	if ws, ok := e.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return e.ExitCode()
}

func (e *execution) step(i int, status, conclusion string) {
	_ = e.l.srv.updateStep(e.report, e.job.ID, i+1, status, conclusion) // for show; the result counts
}

// shell runs one step in a process group of its own with the shell's -e.
func (e *execution) shell(temp string, i int, st runnerStep) error {
	script := filepath.Join(temp, strconv.Itoa(i+1)+".sh")
	if err := os.WriteFile(script, []byte(st.Run+"\n"), 0o600); err != nil {
		return fmt.Errorf("cannot write the step's script: %w", err)
	}
	defer func() { _ = os.Remove(script) }()
	cmd := exec.Command("/bin/sh", "-e", script) //nolint:noctx // stop ends it, and asks before it kills
	cmd.Dir = e.work
	cmd.Env = e.environment(temp)
	cmd.Stdout = writerFunc(e.write)
	cmd.Stderr = cmd.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = pipeGrace
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("cannot start the step's shell: %w", err)
	}
	ended := make(chan struct{})
	go e.stop(cmd.Process.Pid, ended)
	err := cmd.Wait()
	close(ended)
	if errors.Is(err, exec.ErrWaitDelay) {
		return nil // the step ended well and left something running
	}
	return err
}

// stop ends a cancelled step's process group: SIGINT, then SIGTERM, then SIGKILL, until it has ended.
func (e *execution) stop(group int, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-e.ctx.Done():
	}
	for _, next := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{{syscall.SIGINT, e.l.timing.interrupt}, {syscall.SIGTERM, e.l.timing.terminate}, {syscall.SIGKILL, 0}} {
		_ = syscall.Kill(-group, next.signal) // ended in this moment
		t := time.NewTimer(next.wait)
		select {
		case <-ended:
			t.Stop()
			return
		case <-t.C:
		}
	}
}

func (e *execution) environment(temp string) []string {
	dir, err := filepath.Abs(e.work)
	if err != nil {
		dir = e.work
	}
	return append(os.Environ(),
		"CI=true", "GITHUB_ACTIONS=true", "GITHUB_REPOSITORY="+e.job.Repository, "GITHUB_SHA="+e.job.SHA,
		"GITHUB_RUN_ID="+strconv.FormatInt(e.job.RunID, 10), "GITHUB_RUN_ATTEMPT="+strconv.FormatInt(e.job.RunAttempt, 10),
		"GITHUB_JOB="+e.job.Name, "GITHUB_WORKFLOW="+e.job.Workflow, "GITHUB_WORKSPACE="+dir,
		"RUNNER_NAME="+e.l.cfg.AgentName, "RUNNER_OS=Linux", "RUNNER_ARCH=X64", "RUNNER_TEMP="+temp,
		trackingVariable+"="+e.tracking,
	)
}

// trackingVariable marks every process of a job, so that those it leaves behind are found.
const trackingVariable = "RUNNER_TRACKING_ID"

// killOrphans ends what the job's steps left running, as the real runner does at a job's end.
func (e *execution) killOrphans() {
	mark := []byte(trackingVariable + "=" + e.tracking)
	names, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, name := range names {
		env, err := os.ReadFile(name) // unreadable: ended, or not ours
		if err != nil || !bytes.Contains(env, mark) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name))); err == nil {
			e.say(fmt.Sprintf("Terminate orphan process: pid (%d)", pid))
			_ = syscall.Kill(pid, syscall.SIGKILL) // ended by itself meanwhile
		}
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }
