package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/zoomies-fleet/zoomies/agent/httpclient"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller/relay"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

func (r *rig) watch(row store.Runner) *relay.Viewer {
	r.t.Helper()
	v, err := r.c().WatchLogs(r.t.Context(), row)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// read reads a viewer until it has seen so much text, or to its end.
func (r *rig) read(v *relay.Viewer, until string) (text string, end relay.End, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		e, err := v.Next(ctx)
		if err != nil {
			return text, end, fmt.Errorf("after %q: %w", text, err)
		}
		text += string(e.Data)
		switch {
		case e.Kind == relay.TheEnd:
			return text, e.End, nil
		case e.Kind == relay.Lost:
			return text, end, fmt.Errorf("lost %d bytes after %q", e.Lost, text)
		case until != "" && strings.HasSuffix(text, until):
			return text, end, nil
		}
	}
}

// A runner's output reaches everybody who watches, over the network and within one process, and its host stops when nobody does.
func TestOutputIsRelayedToManyViewers(t *testing.T) {
	t.Parallel()
	for _, remote := range []bool{false, true} {
		t.Run(fmt.Sprintf("remote %t", remote), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigOptions{})
			r.pool(r.install("acme", "acme/widgets"), nil)
			r.gh.SetWebhookURL(r.web.URL + "/webhooks/github")
			var via protocol.Controller
			if remote {
				c, err := httpclient.New(httpclient.Options{Address: r.web.URL})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(c.Close)
				via = c
			}
			r.hostVia("host-1", 10, via)
			id := r.job("wait")
			r.waitJob(id, "in_progress", "")
			row := r.runner(store.RunnerBusy)
			engine := r.hosts[0].engine
			engine.Print(row.ID, "one\n")

			for round := range 3 {
				first := r.watch(row)
				if _, _, err := r.read(first, "one\n"); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				var wg sync.WaitGroup
				viewers := []*relay.Viewer{first}
				for range 30 {
					viewers = append(viewers, r.watch(row))
				}
				line := fmt.Sprintf("round %d\n", round)
				for _, v := range viewers {
					wg.Go(func() {
						if _, _, err := r.read(v, line); err != nil {
							t.Errorf("round %d: %v", round, err)
						}
					})
				}
				engine.Print(row.ID, line)
				wg.Wait()
				if n := r.c().relay.Watched(); n != 1 {
					t.Errorf("%d streams for one runner", n)
				}
				for _, v := range viewers {
					v.Close()
				}
				engine.Print(row.ID, "one\n") // so that the next round begins alike
			}
			r.until("the host has answered for every stream", func() bool {
				for _, kind := range []protocol.TaskKind{protocol.TaskStreamLogs, protocol.TaskCancelLogs} {
					if ts, err := r.st.OutstandingTasks(t.Context(), row.HostID, string(kind)); err != nil || len(ts) > 0 {
						return false
					}
				}
				return r.c().relay.Watched() == 0
			})

			last := r.watch(row)
			defer last.Close()
			if _, _, err := r.read(last, "round 2\none\n"); err != nil {
				t.Fatal(err)
			}
			engine.Print(row.ID, "bye\n")
			r.finishJob(id)
			if text, end, err := r.read(last, ""); err != nil || text != "bye\n" || end.Reason != relay.Ended {
				t.Errorf("at the end: %q %+v %v", text, end, err)
			}
			r.nothingLeft()
			row, err := r.st.Runner(t.Context(), row.ID)
			if err != nil {
				t.Fatal(err)
			}
			gone := r.watch(row)
			defer gone.Close()
			if _, end, err := r.read(gone, ""); err != nil || end.Reason != relay.Gone || !strings.Contains(end.Message, "has ended") {
				t.Errorf("after its end: %+v %v", end, err)
			}
		})
	}
}

// A runner that has not started has no output yet: its host is asked once it has.
func TestARunnerIsWatchedBeforeItStarts(t *testing.T) {
	t.Parallel()
	r, _, h := noAgents(t, nil)
	r.job("ok")
	create := h.task()
	row := r.runner(store.RunnerProvisioning)
	v := r.watch(row)
	defer v.Close()
	if ts, err := r.st.Tasks(t.Context(), row.ID); err != nil || len(ts) != 1 {
		t.Fatalf("%d tasks: %v", len(ts), err)
	}
	if err := h.answer(create, true, ""); err != nil {
		t.Fatal(err)
	}
	stream := h.task()
	if stream.Kind != protocol.TaskStreamLogs || stream.RunnerID != row.ID || !stream.Logs.Follow || stream.Logs.Stream == "" {
		t.Fatalf("asked for %+v", stream)
	}
	if err := r.c().Agents().SendLogs(t.Context(), h.cred, stream.Logs.Stream, strings.NewReader("hello")); err != nil {
		t.Fatal(err)
	}
	if text, end, err := r.read(v, ""); err != nil || text != "hello" || end.Reason != relay.Ended {
		t.Errorf("%q %+v %v", text, end, err)
	}
	if err := h.answer(stream, true, ""); err != nil { // which comes late
		t.Error(err)
	}

	// One that fails before it starts has none.
	r.job("ok")
	create = h.task()
	row2 := store.Runner{}
	for _, x := range r.live() {
		if x.ID == create.RunnerID {
			row2 = x
		}
	}
	w := r.watch(row2)
	defer w.Close()
	if err := h.answer(create, false, "no space left"); err != nil {
		t.Fatal(err)
	}
	if _, end, err := r.read(w, ""); err != nil || end.Reason != relay.Gone || !strings.Contains(end.Message, "no space left") {
		t.Errorf("%+v %v", end, err)
	}
}

// watched is a runner of a scripted host that somebody watches, and the task with which the host was asked.
func watched(t *testing.T) (*rig, scripted, store.Runner, *relay.Viewer, protocol.Task) {
	t.Helper()
	r, _, h := noAgents(t, nil)
	r.job("ok")
	if err := h.answer(h.task(), true, ""); err != nil {
		t.Fatal(err)
	}
	row := r.runner(store.RunnerRegistering)
	v := r.watch(row)
	task := h.task()
	if task.Kind != protocol.TaskStreamLogs {
		t.Fatalf("asked for %+v", task)
	}
	return r, h, row, v, task
}

func TestAHostThatCannotSendSaysWhy(t *testing.T) {
	t.Parallel()
	r, h, row, v, task := watched(t)
	if err := h.answer(task, false, "its workload is not on the host any more"); err != nil {
		t.Fatal(err)
	}
	if _, end, err := r.read(v, ""); err != nil || end.Reason != relay.Failed || !strings.Contains(end.Message, "not on the host any more") {
		t.Errorf("%+v %v", end, err)
	}
	v.Close()

	silent := r.watch(row)
	defer silent.Close()
	h.task()
	r.c().taskDropped(store.Task{Kind: string(protocol.TaskStreamLogs), RunnerID: row.ID})
	if _, end, err := r.read(silent, ""); err != nil || end.Reason != relay.Failed || !strings.Contains(end.Message, "did not answer") {
		t.Errorf("%+v %v", end, err)
	}
}

// Whoever comes while the host still has the request of somebody who has left gets that stream.
func TestAStreamThatWasLeftIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	r, h, row, v, task := watched(t)
	v.Close()
	agents := r.c().Agents()
	if err := agents.SendLogs(t.Context(), h.cred, task.Logs.Stream, strings.NewReader("x")); !errors.Is(err, protocol.ErrConflict) {
		t.Fatalf("a post that nobody watches: %v", err)
	}
	again := r.watch(row)
	defer again.Close()
	out, in := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- agents.SendLogs(t.Context(), h.cred, task.Logs.Stream, out)
		_ = out.Close()
	}()
	if _, err := io.WriteString(in, "hello"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.read(again, "hello"); err != nil {
		t.Fatal(err)
	}
	// The host's answer has not come, and still the next viewer gets a stream of their own.
	again.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	third := r.watch(row)
	defer third.Close()
	kinds := map[protocol.TaskKind]string{}
	for range 2 {
		t := h.task()
		kinds[t.Kind] = t.Logs.Stream
	}
	if kinds[protocol.TaskCancelLogs] != task.Logs.Stream || kinds[protocol.TaskStreamLogs] == "" || kinds[protocol.TaskStreamLogs] == task.Logs.Stream {
		t.Errorf("asked for %v", kinds)
	}
}

// What a lost host was asked for nobody waits for.
func TestALostHostSendsNothing(t *testing.T) {
	t.Parallel()
	r, h, row, v, task := watched(t)
	defer v.Close()
	if err := h.answer(task, true, ""); err != nil { // or it would be its silence that ends the stream first
		t.Fatal(err)
	}
	r.clock.advance(HostLostAfter)
	r.c().housekeep(t.Context())
	if _, end, err := r.read(v, ""); err != nil || end.Reason != relay.Failed || !strings.Contains(end.Message, "lost") {
		t.Errorf("%+v %v", end, err)
	}
	again := r.watch(row)
	defer again.Close()
	if _, end, err := r.read(again, ""); err != nil || end.Reason != relay.Failed || !strings.Contains(end.Message, "lost") {
		t.Errorf("%+v %v", end, err)
	}
}

// No other host may answer a request.
func TestOnlyTheRunnersHostSends(t *testing.T) {
	t.Parallel()
	r, _, row, v, task := watched(t)
	defer v.Close()
	other := r.scripted("host-2")
	agents := r.c().Agents()
	if err := agents.SendLogs(t.Context(), other.cred, task.Logs.Stream, strings.NewReader("forged")); !errors.Is(err, protocol.ErrConflict) {
		t.Errorf("another host: %v", err)
	}
	stranger := other.cred
	stranger.Token = "zooagent_wrong"
	if err := agents.SendLogs(t.Context(), stranger, task.Logs.Stream, strings.NewReader("forged")); !errors.Is(err, protocol.ErrUnauthorized) {
		t.Errorf("a stranger: %v", err)
	}
	q := store.Runner{ID: row.ID, Name: row.Name, HostID: row.HostID, State: store.RunnerRemoved, Cleaned: true}
	if end, gone := r.c().outputGone(q); !gone || end.Reason != relay.Gone {
		t.Errorf("%+v", end)
	}
}
