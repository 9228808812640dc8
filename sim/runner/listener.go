package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// errShutdown is the cause of a context that a signal ended.
var errShutdown = errors.New("the runner was asked to stop")

// errCancelled is the cause of a job's context that the server ended.
var errCancelled = errors.New("the job was cancelled")

// timing are the real listener's waits; tests shorten them.
type timing struct {
	sessionRetry  time.Duration // between attempts to open a session
	conflictLimit time.Duration // how long a session conflict is borne
	pollRetry     time.Duration // after a failed poll: this to twice this
	interrupt     time.Duration // a cancelled step gets SIGINT and so long, then
	terminate     time.Duration // SIGTERM and so long, then SIGKILL
}

func realTiming() timing {
	return timing{
		sessionRetry: 30 * time.Second, conflictLimit: 4 * time.Minute, pollRetry: 15 * time.Second,
		interrupt: 7500 * time.Millisecond, terminate: 2500 * time.Millisecond,
	}
}

// listener waits for its one job.
type listener struct {
	dir     string
	cfg     config
	out     *terminal
	srv     *service
	timing  timing
	session string
}

func newListener(dir string, cfg config, out *terminal, t timing) *listener {
	return &listener{dir: dir, cfg: cfg, out: out, srv: newService(cfg), timing: t}
}

// run opens a session, listens, runs one job and returns the exit code. ctx ends on a signal.
func (l *listener) run(ctx context.Context) int {
	defer l.srv.client.CloseIdleConnections()
	if err := os.MkdirAll(filepath.Join(l.dir, l.cfg.WorkFolder), 0o755); err != nil {
		l.out.errorf("Fail to create and validate runner's work directory '%s'.", l.cfg.WorkFolder)
		return exitTerminated
	}
	if code, ok := l.open(ctx); !ok {
		return code
	}
	l.out.printf("Current runner version: '%s'", version)
	l.out.stampedf("Listening for Jobs")
	return l.listen(ctx)
}

// open creates the session; without one it says with what code to exit.
func (l *listener) open(ctx context.Context) (code int, ok bool) {
	conflicts, failing := 0, false
	for {
		id, err := l.srv.openSession(ctx)
		if ctx.Err() != nil {
			return exitSuccess, false
		}
		var old *deprecatedError
		reached := err == nil || errors.Is(err, errUnauthorized) || errors.Is(err, errConflict) || errors.As(err, &old)
		if reached {
			l.out.printf("\n√ Connected to GitHub\n")
		}
		switch {
		case err == nil:
			if failing {
				l.out.stampedf("Runner reconnected.")
			}
			l.session = id
			return 0, true
		case errors.As(err, &old):
			return l.deprecated(old), false
		case errors.Is(err, errUnauthorized), errors.Is(err, errGone):
			l.out.errorf("Failed to create a session. The runner registration has been deleted from the server, please re-configure. " +
				"Runner registrations are automatically deleted for runners that have not connected to the service recently.")
			return exitTerminated, false
		case errors.Is(err, errConflict):
			l.out.errorf("A session for this runner already exists.")
			if conflicts++; time.Duration(conflicts)*l.timing.sessionRetry >= l.timing.conflictLimit {
				l.out.errorf("Stop retry on SessionConflictException after retried for %.0f seconds.", l.timing.conflictLimit.Seconds())
				l.out.errorf("Failed to create session. %v", err)
				return exitSessionConflict, false
			}
		}
		if !failing {
			l.out.errorf("%s: Runner connect error: %v. Retrying until reconnected.", now(), err)
			failing = true
		}
		if sleep(ctx, l.timing.sessionRetry) != nil {
			return exitSuccess, false
		}
	}
}

func (l *listener) deprecated(err error) int {
	l.out.errorf("An error occurred: %v", err)
	if on, perr := strconv.ParseBool(os.Getenv(deprecatedVariable)); perr == nil && on {
		return exitDeprecated
	}
	return exitTerminated
}

// listen takes messages until the job is over, the registration is gone or ctx ends.
func (l *listener) listen(ctx context.Context) int {
	var running *execution
	done := make(chan struct{}) // closed when the job is over; never without one
	poll, stopPoll := context.WithCancel(ctx)
	defer stopPoll()
	defer l.close(ctx)
	failing := false
	for {
		m, err := l.srv.nextMessage(poll, l.session)
		if ctx.Err() != nil { // a signal: a job that runs ends as cancelled
			if running != nil {
				<-done
			}
			return exitSuccess
		}
		if running != nil && (poll.Err() != nil || errors.Is(err, errGone) || errors.Is(err, errUnauthorized)) {
			<-done // the registration goes with the job's end
			removeConfig(l.dir)
			return exitSuccess
		}
		var old *deprecatedError
		switch {
		case err == nil && m == nil:
		case err == nil && m.Type == "RunnerJobRequest" && running == nil:
			j, err := l.srv.acquire(ctx, m.Body.JobID)
			if err != nil {
				continue // somebody else's by now: the next message may be for us
			}
			running = l.start(ctx, j)
			go func() {
				running.run()
				close(done)
				stopPoll()
			}()
		case err == nil && m.Type == "JobCancellation" && running != nil:
			running.cancel(errCancelled)
		case errors.Is(err, errGone):
			l.out.errorf("The runner no longer exists on the server. Cleaning up local configuration.")
			l.session = ""
			removeConfig(l.dir)
			return exitSuccess
		case errors.Is(err, errUnauthorized):
			l.session = ""
			return exitSuccess
		case errors.As(err, &old):
			return l.deprecated(old)
		case errors.Is(err, errExpired):
			if code, ok := l.open(ctx); !ok {
				return code
			}
		case err != nil:
			if !failing {
				l.out.errorf("%s: Runner connect error: %v. Retrying until reconnected.", now(), err)
				failing = true
			}
			if l.pause(poll) != nil {
				continue
			}
		}
		if err == nil && failing {
			l.out.stampedf("Runner reconnected.")
			failing = false
		}
	}
}

// pause waits a random while so that runners do not return all at once.
func (l *listener) pause(ctx context.Context) error {
	return sleep(ctx, l.timing.pollRetry+rand.N(l.timing.pollRetry)) //nolint:gosec // spreads load, guards nothing
}

// close deletes the session; after a job it is gone already, and that is fine.
func (l *listener) close(ctx context.Context) {
	if l.session == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	_ = l.srv.closeSession(ctx, l.session) // the server ends a silent session by itself
}
