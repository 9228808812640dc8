package backendtest

import (
	"bufio"
	"context"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// The two streams reach an engine through two pipes: each keeps its own order, and which of the two it reads first, when it
// is late, is the engine's choice.
func testLogOrder(t *testing.T, h Harness) {
	r := start(t, h)
	_, log := r.run(r.spec(`i=0; while [ $i -lt 20 ]; do echo out $i; sleep 0.01; echo err $i >&2; sleep 0.01; i=$((i+1)); done`))
	next := map[string]int{}
	for line := range strings.Lines(log) {
		stream, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		if number != strconv.Itoa(next[stream]) {
			t.Fatalf("the log reads %q", log)
		}
		next[stream]++
	}
	if next["out"] != 20 || next["err"] != 20 {
		t.Errorf("the log reads %q", log)
	}
}

func testLogFollow(t *testing.T, h Harness) {
	r := start(t, h)
	w := r.create(r.spec(`trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.1; done`))
	log, err := r.Logs(r.ctx, w.ID, backend.LogOptions{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	lines := bufio.NewScanner(log)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("the first line followed is %q, %v", lines.Text(), lines.Err())
	}
	if err := r.Stop(r.ctx, w.ID, patience); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != "bye" {
		t.Errorf("the last line followed is %q, %v", lines.Text(), lines.Err())
	}
	if lines.Scan() || lines.Err() != nil {
		t.Errorf("after the end it goes on with %q, %v", lines.Text(), lines.Err())
	}

	// A reader that goes away does not hang, nor does its context's end.
	w = r.create(r.spec(sleeper))
	ctx, cancel := context.WithCancel(r.ctx)
	log, err = r.Logs(ctx, w.ID, backend.LogOptions{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, log); err == nil {
		t.Log("the log ended well when its context did")
	}
	if err := log.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func testLogTail(t *testing.T, h Harness) {
	r := start(t, h)
	w, _ := r.run(r.spec(`i=0; while [ $i -lt 50 ]; do echo line $i; i=$((i+1)); done`))
	if got := r.log(w.ID, backend.LogOptions{Tail: 3}); got != "line 47\nline 48\nline 49\n" {
		t.Errorf("the last three lines are %q", got)
	}
	if got := r.log(w.ID, backend.LogOptions{Tail: 500}); strings.Count(got, "\n") != 50 {
		t.Errorf("the last 500 of 50 lines are %q", got)
	}
}

func testWatch(t *testing.T, h Harness) {
	r := start(t, h)
	other := start(t, h)
	ctx, cancel := context.WithCancel(r.ctx)
	events, err := r.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	other.create(other.spec(sleeper)) // must not be heard of
	spec := r.spec("exit 3")
	w := r.create(spec)
	for _, want := range []backend.Phase{backend.Running, backend.Exited} {
		select {
		case e := <-events:
			if e.ID != w.ID || e.RunnerID != spec.RunnerID || e.Phase != want {
				t.Errorf("event %+v, want %s of %s", e, want, w.ID)
			}
		case <-r.ctx.Done():
			t.Fatalf("no event for %s", want)
		}
	}
	cancel()
	r.until("the channel is closed", func() bool {
		select {
		case _, open := <-events:
			return !open
		default:
			return false
		}
	})
}
