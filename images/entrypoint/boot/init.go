package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// prctl options, from linux/prctl.h.
const (
	prSetDumpable       = 4
	prSetChildSubreaper = 36
)

// becomeInit makes this process the parent of orphans, which process 1 is without asking, and
// closes /proc/<pid>/environ, where the container's first environment stays readable, to the
// job's own processes.
func becomeInit() error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0); errno != 0 {
		return fmt.Errorf("cannot adopt orphaned processes: %w", errno)
	}
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetDumpable, 0, 0); errno != 0 {
		return fmt.Errorf("cannot close the environment to other processes: %w", errno)
	}
	return nil
}

// initProcess runs programs one after the other as the container's init would.
type initProcess struct {
	signals <-chan os.Signal
}

// run starts program with env and the process's own standard streams, passes every signal on
// to it, reaps every other child that ends meanwhile, and returns its exit code: 128 and the
// signal's number when a signal ended it. The error says that it could not be started.
func (p *initProcess) run(program string, env []string) (int, error) {
	select {
	case sig := <-p.signals: // it came before there was anybody to pass it to
		return exitSignal + int(number(sig)), nil
	default:
	}
	// os.Process is not used: its Wait and the reaping below would take the status from
	// each other.
	pid, err := syscall.ForkExec(program, []string{program}, &syscall.ProcAttr{
		Env: env, Files: []uintptr{0, 1, 2},
	})
	if err != nil {
		return 0, &os.PathError{Op: "exec", Path: program, Err: err}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case sig := <-p.signals:
				_ = syscall.Kill(pid, number(sig))
			case <-stop:
				return
			}
		}
	}()
	status, err := reapUntil(pid)
	close(stop)
	<-stopped
	if err != nil {
		return 0, err
	}
	if status.Signaled() {
		return exitSignal + int(status.Signal()), nil
	}
	return status.ExitStatus(), nil
}

// reapUntil waits for children, whoever's they were, until the one called pid has ended.
func reapUntil(pid int) (syscall.WaitStatus, error) {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("cannot wait for the runner: %w", err)
		case got == pid && (status.Exited() || status.Signaled()):
			return status, nil
		}
	}
}

// number is sig as the kernel knows it; on Linux every os.Signal is one.
func number(sig os.Signal) syscall.Signal {
	n, _ := sig.(syscall.Signal)
	return n
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal syscall.Signal }

func (e *signalError) Error() string { return "stopped by signal " + e.signal.String() }

// stopOnSignal returns a context that the first signal ends. stop must be called; it returns
// once nothing reads signals any more.
func stopOnSignal(signals <-chan os.Signal) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case sig := <-signals:
			cancel(&signalError{signal: number(sig)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}
