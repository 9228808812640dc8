package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// The files of a workload's directory.
const (
	madeFile    = "workload.json"
	startedFile = "started.json"
	exitFile    = "exit.json"
	logFile     = "output.log"
	workDir     = "work"
	idPrefix    = "prc_"
)

// lost is the exit code of a workload whose shim was killed or whose machine went down before
// the end could be written: as if SIGKILL had ended it.
const lost = 137

type madeRecord struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels"`
	MadeAt time.Time         `json:"made_at"`
}

type startedRecord struct {
	Shim      process   `json:"shim"`
	Child     process   `json:"child"`
	StartedAt time.Time `json:"started_at"`
}

type exitRecord struct {
	Code    int       `json:"code"`
	EndedAt time.Time `json:"ended_at"`
}

// process is one that a number alone does not prove: numbers are used again.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks after boot
	Boot  string `json:"boot"`  // the kernel's boot ID
}

// state is what a directory says.
type state struct {
	id      string
	dir     string
	made    madeRecord
	started *startedRecord
	exit    *exitRecord
}

func isID(name string) bool {
	return strings.HasPrefix(name, idPrefix) && filepath.Base(name) == name
}

// load reads a workload's directory. It is fs.ErrNotExist when there is none, or one whose
// making was cut off before it said what it is.
func load(dir string) (state, error) {
	s := state{id: filepath.Base(dir), dir: dir}
	if err := readJSON(filepath.Join(dir, madeFile), &s.made); err != nil {
		return state{}, err
	}
	var started startedRecord
	switch err := readJSON(filepath.Join(dir, startedFile), &started); {
	case err == nil:
		s.started = &started
	case !errors.Is(err, fs.ErrNotExist):
		return state{}, err
	}
	return s, s.loadExit()
}

func (s *state) loadExit() error {
	var exit exitRecord
	err := readJSON(filepath.Join(s.dir, exitFile), &exit)
	if err == nil {
		s.exit = &exit
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// phase of the workload now.
func (s *state) phase() backend.Phase {
	switch {
	case s.exit != nil:
		return backend.Exited
	case s.started == nil:
		return backend.Created
	case s.started.Shim.lives(), s.started.Child.lives():
		return backend.Running
	}
	// The shim writes the end before it ends.
	_ = s.loadExit()
	return backend.Exited
}

func (s *state) workload() backend.Workload {
	w := backend.Workload{
		ID: s.id, Name: s.made.Name, CreatedAt: s.made.MadeAt,
		RunnerID: s.made.Labels[backend.LabelRunner], PoolID: s.made.Labels[backend.LabelPool], Role: s.made.Labels[backend.LabelRole],
		Phase: s.phase(),
	}
	if s.started != nil {
		w.StartedAt = s.started.StartedAt
	}
	if w.Phase == backend.Exited {
		w.ExitCode = lost
		if s.exit != nil {
			w.ExitCode, w.EndedAt = s.exit.Code, s.exit.EndedAt
		}
	}
	return w
}

// identify a process that lives.
func identify(pid int) (process, error) {
	stat, err := procStat(pid)
	if err != nil {
		return process{}, err
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return process{}, fmt.Errorf("cannot identify process %d: %w", pid, err)
	}
	return process{PID: pid, Start: stat.Starttime, Boot: strings.TrimSpace(string(boot))}, nil
}

// lives says whether it still runs; a zombie does not.
func (p process) lives() bool {
	now, err := identify(p.PID)
	if err != nil || now != p {
		return false
	}
	stat, err := procStat(p.PID)
	return err == nil && stat.State != "Z" && stat.State != "X"
}

// signal sends sig to the process itself, or with group to its whole process group. The
// process is held by a descriptor while its identity is checked, so that none that came to
// have its number since can be hit.
func (p process) signal(sig unix.Signal, group bool) error {
	if p.PID <= 1 {
		return unix.ESRCH
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if !p.lives() {
		return unix.ESRCH
	}
	if group {
		return os.NewSyscallError("kill", unix.Kill(-p.PID, sig))
	}
	return os.NewSyscallError("pidfd_send_signal", unix.PidfdSendSignal(fd, sig, nil, 0))
}

func procStat(pid int) (procfs.ProcStat, error) {
	proc, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, fmt.Errorf("cannot look at process %d: %w", pid, err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return procfs.ProcStat{}, fmt.Errorf("cannot look at process %d: %w", pid, err)
	}
	return stat, nil
}

func readJSON(path string, into any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read the workload: %w", err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("cannot read %s: %w", path, err)
	}
	return nil
}

// writeJSON replaces a file in one step, so that a reader sees all of it or nothing.
func writeJSON(path string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	draft := path + ".new"
	if err := os.WriteFile(draft, data, 0o600); err != nil {
		return fmt.Errorf("cannot write the workload: %w", err)
	}
	if err := os.Rename(draft, path); err != nil {
		return fmt.Errorf("cannot write the workload: %w", err)
	}
	return nil
}
