package github

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleRegistrationsAreDeleted: GitHub deletes an idle JIT registration after a while, online or not, and tells
// its runner; a busy one stays (field report A24).
func TestIdleRegistrationsAreDeleted(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		r.SetLostAfter(24 * time.Hour)
		r.SetIdleDelete(3 * time.Minute)
		offline := r.mint("/orgs/acme", "offline", "none")
		idle := r.mint("/orgs/acme", "idle", "none").online()
		busy := r.mint("/orgs/acme", "busy", "zoomies").online()
		foreign := r.AddForeignRunner("theirs")
		id := queue(r, "zoomies")
		busy.take()
		told := make(chan string, 1)
		go func() {
			for {
				status, _ := idle.poll(context.Background())
				if status != 202 {
					told <- fmt.Sprint(status, " after ", time.Since(r.Runners()[0].RegisteredAt))
					return
				}
			}
		}()
		pass(3*time.Minute - time.Second)
		synctest.Wait()
		if n := len(r.Runners()); n != 4 {
			t.Errorf("%d registrations before the time", n)
		}
		if got := <-told; got != "404 after 3m0s" {
			t.Errorf("the idle runner was answered %s", got)
		}
		synctest.Wait()
		rs := r.Runners()
		if len(rs) != 2 || rs[0].Name != "busy" || rs[1].ID != foreign {
			t.Errorf("left: %+v", rs)
		}
		r.do("GET", fmt.Sprintf("/orgs/acme/actions/runners/%d", offline.id), "").want(404)
		busy.finish(id, "Succeeded")
	})
}

// TestListsLag: a list shows registrations and removals only after a while; reading one by id is exact
// (field reports A32, A33, A39 in kind).
func TestListsLag(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		r.SetListLag(30 * time.Second)
		f := r.mint("/orgs/acme", "one", "zoomies")
		path := fmt.Sprintf("/orgs/acme/actions/runners/%d", f.id)
		r.do("GET", path, "").want(200)
		if l := r.list("/orgs/acme", "?name=one"); l.Total != 0 {
			t.Errorf("a list shows %+v at once", l)
		}
		r.do("POST", "/orgs/acme/actions/runners/generate-jitconfig", jit("one", "x")).want(409) // though no list shows it
		pass(30 * time.Second)
		if l := r.list("/orgs/acme", ""); l.Total != 1 {
			t.Errorf("a list shows %+v after the lag", l)
		}
		r.do("DELETE", path, "").want(204)
		r.do("GET", path, "").want(404)
		if l := r.list("/orgs/acme", ""); l.Total != 1 || l.Runners[0].Status != "offline" {
			t.Errorf("a list shows %+v right after the removal", l)
		}
		pass(30 * time.Second)
		if l := r.list("/orgs/acme", ""); l.Total != 0 {
			t.Errorf("a list shows %+v long after the removal", l)
		}
	})
}

// TestLostRunners: a runner that dies silently stays online for a while; then its job fails, or goes
// to another if it had not begun (field report A22).
func TestLostRunners(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		r.SetLostAfter(10 * time.Minute)
		dead := r.mint("/orgs/acme", "dead", "zoomies").online()
		id := queue(r, "zoomies")
		dead.take()
		ghost := r.mint("/orgs/acme", "ghost", "zoomies").online()
		pass(10*time.Minute - time.Second)
		synctest.Wait()
		if j := r.Job(id); j.Status != StatusInProgress {
			t.Errorf("the job is %s before the time", j.Status)
		}
		pass(time.Second)
		synctest.Wait()
		if j := r.Job(id); j.Conclusion != ConclusionFailure || j.Log == "" {
			t.Errorf("the job of a runner that was lost is %+v", j)
		}
		rs := r.Runners()
		if len(rs) != 1 || rs[0].ID != ghost.id || rs[0].Online {
			t.Errorf("left: %+v; want the ghost, offline", rs)
		}
		if ghost.open() != 200 {
			t.Error("the ghost cannot come back")
		}

		// An offer that nobody took goes back to the queue.
		second := queue(r, "zoomies")
		if status, m := ghost.poll(t.Context()); status != 200 || m.Body.JobID != second {
			t.Fatalf("poll answered %d %+v", status, m)
		}
		pass(10 * time.Minute)
		synctest.Wait()
		if j := r.Job(second); j.Status != StatusQueued || j.RunnerID != 0 {
			t.Errorf("the job that was never begun is %+v", j)
		}
		if got := r.mint("/orgs/acme", "next", "zoomies").online().take(); got.ID != second {
			t.Errorf("took %d", got.ID)
		}
	})
}

func TestACancelIsForcedInTheEnd(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		r.SetLostAfter(time.Hour)
		f := r.mint("/orgs/acme", "stubborn", "zoomies").online()
		id := queue(r, "zoomies")
		f.take()
		r.CancelJob(id)
		pass(forceCancelAfter)
		synctest.Wait()
		if j := r.Job(id); j.Conclusion != ConclusionCancelled {
			t.Errorf("the job is %+v", j)
		}
	})
}

// TestPollsAreHeld: a poll without news is answered after its hold, and one with news at once.
func TestPollsAreHeld(t *testing.T) {
	inBubble(t, Options{}, func(t *testing.T, r *rig) {
		f := r.mint("/orgs/acme", "one", "zoomies").online()
		from := time.Now()
		if status, _ := f.poll(t.Context()); status != 202 || time.Since(from) != 50*time.Second {
			t.Errorf("an empty poll answered %d after %s", status, time.Since(from))
		}
		time.AfterFunc(7*time.Second, func() { queue(r, "zoomies") })
		from = time.Now()
		if status, _ := f.poll(t.Context()); status != 200 || time.Since(from) != 7*time.Second {
			t.Errorf("a poll with a job answered %d after %s", status, time.Since(from))
		}
	})
}

func TestLatency(t *testing.T) {
	inBubble(t, Options{Latency: 80 * time.Millisecond}, func(t *testing.T, r *rig) {
		from := time.Now()
		r.do("GET", "/rate_limit", "").want(200)
		if d := time.Since(from); d != 80*time.Millisecond {
			t.Errorf("a request took %s", d)
		}
	})
}

// pass lets a bubble's time pass.
func pass(d time.Duration) { <-time.After(d) }

// TestSweepFollowsTheInjectedClock: a test that moves its own clock calls Sweep.
func TestSweepFollowsTheInjectedClock(t *testing.T) {
	t.Parallel()
	c := newClock()
	r := newRig(t, Options{Now: c.now})
	r.SetIdleDelete(time.Minute)
	r.mint("/orgs/acme", "one", "x")
	c.add(59 * time.Second)
	if next := r.Sweep(); next != time.Second || len(r.Runners()) != 1 {
		t.Errorf("next in %s, %d registrations", next, len(r.Runners()))
	}
	c.add(time.Second)
	r.Sweep()
	if n := len(r.Runners()); n != 0 {
		t.Errorf("%d registrations", n)
	}
}
