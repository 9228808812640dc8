package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// ShimVerb is the first argument that makes the binary a shim.
const ShimVerb = "process-shim"

// killAll is the signal by which the agent asks a shim to kill everything it started.
const killAll = unix.SIGUSR1

// order is what the agent tells a shim on its stdin: it holds secrets, so it is neither in a
// file nor in the arguments.
type order struct {
	Command []string `json:"command"`
	Env     []string `json:"env"`
	Limit   int64    `json:"limit"` // bytes of log
}

// ShimMain supervises one workload: args is its directory. It reads its order from stdin,
// starts the command, answers on descriptor 3 (nothing, or why it could not), and lives until
// the command and all it left behind have ended. It returns the exit code of the process.
func ShimMain(args []string) int {
	unix.CloseOnExec(3) // or the workload would hold it, and the agent wait for its end
	answer := os.NewFile(3, "answer")
	fail := func(err error) int {
		if answer != nil {
			_, _ = io.WriteString(answer, err.Error())
			_ = answer.Close()
		}
		return 1
	}
	if len(args) != 1 {
		return fail(errors.New("a shim is started by the agent only"))
	}
	s := shim{dir: args[0]}
	if err := s.start(); err != nil {
		return fail(err)
	}
	_ = answer.Close()
	if err := s.finish(); err != nil {
		return 1
	}
	return 0
}

type shim struct {
	dir     string
	cmd     *exec.Cmd
	signals chan os.Signal
	copied  chan struct{} // all output is in the log
	read    *os.File
}

func (s *shim) start() error {
	// A child that dies, a reader that goes: none may end the shim.
	s.signals = make(chan os.Signal, 16)
	signal.Notify(s.signals, unix.SIGTERM, killAll, unix.SIGCHLD)
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGPIPE)
	// What the workload leaves behind becomes ours, to be reaped and in the end killed.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot adopt orphans: %w", err)
	}
	var o order
	if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
		return fmt.Errorf("cannot read the order: %w", err)
	}
	_ = os.Stdin.Close()
	log, err := newCappedLog(filepath.Join(s.dir, logFile), o.Limit)
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("cannot catch the output: %w", err)
	}
	for _, pair := range o.Env {
		if path, ok := strings.CutPrefix(pair, "PATH="); ok {
			_ = os.Setenv("PATH", path) // the workload's own decides what its command means
		}
	}
	s.cmd = exec.Command(o.Command[0], o.Command[1:]...) //nolint:noctx // it ends by signals, which stop what it started too
	s.cmd.Dir = filepath.Join(s.dir, workDir)
	s.cmd.Env = o.Env
	s.cmd.Stdout, s.cmd.Stderr = write, write // one pipe, so the order stays
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("cannot start %s: %w", o.Command[0], err)
	}
	_ = write.Close()
	s.read, s.copied = read, make(chan struct{})
	go func() {
		defer close(s.copied)
		_, _ = io.Copy(log, read)
		_ = log.Close()
	}()
	return s.record()
}

// record says which processes the workload is.
func (s *shim) record() error {
	self, err := identify(os.Getpid())
	if err != nil {
		return err
	}
	child, err := identify(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	return writeJSON(filepath.Join(s.dir, startedFile), startedRecord{Shim: self, Child: child, StartedAt: time.Now().UTC()})
}

func (s *shim) finish() error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.cmd.Wait() // ProcessState says how it ended
	}()
	for waiting := true; waiting; {
		select {
		case <-ended:
			waiting = false
		case sig := <-s.signals:
			switch sig {
			case unix.SIGTERM:
				_ = unix.Kill(-s.cmd.Process.Pid, unix.SIGTERM)
			case killAll:
				killTree()
			case unix.SIGCHLD:
				s.reapOrphans()
			}
		}
	}
	// One job for each workload: what it started in the background ends with it.
	for killTree() {
		if _, err := unix.Wait4(-1, nil, 0, nil); errors.Is(err, unix.ECHILD) {
			break
		}
	}
	flush := time.NewTimer(5 * time.Second) // a pipe handed to somebody outside must not hold us
	defer flush.Stop()
	select {
	case <-s.copied:
	case <-flush.C:
	}
	return writeJSON(filepath.Join(s.dir, exitFile), exitRecord{Code: exitCode(s.cmd.ProcessState), EndedAt: time.Now().UTC()})
}

// exitCode is the shell's: 128 and the signal for what a signal ended.
func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// killTree kills every descendant and says whether there was one.
func killTree() bool {
	found := false
	for _, child := range children(os.Getpid()) {
		found = true
		for _, pid := range append(descendants(child), child) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	return found
}

// reapOrphans waits for the adopted children that have ended; the command itself is waited
// for by name.
func (s *shim) reapOrphans() {
	for _, pid := range children(os.Getpid()) {
		if pid != s.cmd.Process.Pid {
			_, _ = unix.Wait4(pid, nil, unix.WNOHANG, nil)
		}
	}
}

// children of a process, from the kernel's own lists, one for each thread.
func children(pid int) []int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var out []int
	for _, list := range lists {
		data, err := os.ReadFile(list)
		if err != nil {
			continue // the thread ended
		}
		for field := range strings.FieldsSeq(string(data)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

func descendants(pid int) []int {
	var out []int
	for _, child := range children(pid) {
		out = append(out, child)
		out = append(out, descendants(child)...)
	}
	return out
}

// cappedLog starts over when it has grown to its limit: a chatty job must not fill the disk.
type cappedLog struct {
	file        *os.File
	size, limit int64
}

func newCappedLog(path string, limit int64) (*cappedLog, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the log: %w", err)
	}
	if limit <= 0 {
		limit = backend.LogLimit
	}
	return &cappedLog{file: file, limit: limit}, nil
}

func (l *cappedLog) Write(p []byte) (int, error) {
	if l.size+int64(len(p)) > l.limit {
		if err := l.file.Truncate(0); err != nil {
			return 0, fmt.Errorf("cannot start the log over: %w", err)
		}
		l.size = 0
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	if err != nil {
		return n, fmt.Errorf("cannot write the log: %w", err)
	}
	return n, nil
}

func (l *cappedLog) Close() error { return l.file.Close() }
