package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// body is what a GET answers, without the line's end.
func (r *rig) body(token, path string) string {
	r.t.Helper()
	return strings.TrimSuffix(string(r.call(token, "GET", path, nil).want(http.StatusOK).body), "\n")
}

func TestFramesAreWhatGETAnswers(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, func(o *api.Options) { o.Streams.Status = time.Millisecond })
	ada := r.as("ada", over(auth.Admin))
	f := r.follow(ada, "")
	if hello := f.want("hello"); hello.data != `{"version":"test"}` || hello.id == "" {
		t.Errorf("hello: %+v", hello)
	}
	if m := f.want("status"); m.data != r.body(ada, "/api/v1/status") {
		t.Errorf("status: %s", m.data)
	}
	made := into[api.Pool](r.call(ada, "POST", "/api/v1/pools", map[string]any{"name": "a-and-b", "installation_id": r.seed.Installation.ID, "env": map[string]string{"X": "<&>\n"}}).want(201))
	path := "/api/v1/pools/" + made.ID
	if m := f.want("pool.updated"); m.data != r.body(ada, path) {
		t.Errorf("made: %s", m.data)
	}
	if m := f.want("status"); m.data != r.body(ada, "/api/v1/status") || !strings.Contains(m.data, `"total":2`) {
		t.Errorf("status: %s", m.data)
	}
	r.call(ada, "PUT", path+"/pause", map[string]any{"reason": "hot"}).want(200)
	if m := f.want("pool.updated"); m.data != r.body(ada, path) || !strings.Contains(m.data, `"paused":true`) {
		t.Errorf("paused: %s", m.data)
	}
	r.fleet.problems.Raise(made.ID, problems.Problem{Code: problems.PoolBlocked})
	if m := f.want("problems", "status"); m.data != r.body(ada, "/api/v1/problems?limit=500") || !strings.Contains(m.data, `"pool.blocked"`) {
		t.Errorf("problems: %s", m.data)
	}
	r.call(ada, "PUT", "/api/v1/problems/pool.blocked/dismissal?subject="+made.ID, nil).want(200)
	if m := f.want("problems", "status"); m.data != r.body(ada, "/api/v1/problems?limit=500") || !strings.Contains(m.data, `"dismissed":true`) {
		t.Errorf("hidden: %s", m.data)
	}
	r.call(ada, "DELETE", path, nil).want(204)
	if m := f.want("pool.deleted", "status"); m.data != `{"id":"`+made.ID+`"}` {
		t.Errorf("deleted: %s", m.data)
	}
	// A change that failed is not told, and nor is what has no frames.
	r.call(ada, "PATCH", "/api/v1/pools/"+r.seed.Pool.ID, map[string]any{"min": 99}).want(422)
	r.fleet.bus.Publish(events.TaskWritten, "tsk_1")
	r.call(ada, "PATCH", "/api/v1/pools/"+r.seed.Pool.ID, map[string]any{"max": 9}).want(200)
	if m := f.want("pool.updated", "status"); !strings.Contains(m.data, `"max":9`) {
		t.Errorf("got %s", m.data)
	}
}

func TestFramesAreOnlyForThoseWhoMaySeeThem(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, func(o *api.Options) { o.Streams.Status = time.Millisecond })
	in, other := r.neighbour()
	ada := r.as("ada", over(auth.Admin))
	ofPool, ofOther := r.as("pia", overPool(auth.Viewer, r.seed.Pool.ID)), r.as("ivo", overInstallation(auth.Viewer, in.ID))
	noPools := r.tokenOf(r.user("rita", over(auth.Viewer)), "fleet:read")
	mine, theirs, blind, all := r.follow(ofPool, ""), r.follow(ofOther, ""), r.follow(noPools, ""), r.follow(ada, "")
	for _, f := range []*follower{mine, theirs, blind, all} {
		f.want("hello")
	}
	r.fleet.problems.Raise(r.seed.Pool.ID, problems.Problem{Code: problems.PoolBlocked})
	if m := theirs.want("problems", "status"); m.data != `{"items":[]}` {
		t.Errorf("a neighbour's problems: %s", m.data)
	}
	if m := theirs.want("status"); m.data != r.body(ofOther, "/api/v1/status") || m.data == r.body(ada, "/api/v1/status") {
		t.Errorf("a neighbour's status: %s", m.data)
	}
	if m := mine.want("problems", "status"); m.data != r.body(ofPool, "/api/v1/problems?limit=500") || !strings.Contains(m.data, "pool.blocked") {
		t.Errorf("one's own problems: %s", m.data)
	}
	r.call(ada, "PATCH", "/api/v1/pools/"+r.seed.Pool.ID, map[string]any{"max": 8}).want(200)
	r.call(ada, "PATCH", "/api/v1/pools/"+other.ID, map[string]any{"max": 8}).want(200)
	if m := all.want("pool.updated", "status", "problems"); !strings.Contains(m.data, r.seed.Pool.ID) {
		t.Errorf("an admin sees %s", m.data)
	}
	if m := all.want("pool.updated", "status", "problems"); !strings.Contains(m.data, other.ID) {
		t.Errorf("an admin sees %s", m.data)
	}
	if m := theirs.want("pool.updated", "status", "problems"); !strings.Contains(m.data, other.ID) {
		t.Errorf("a neighbour sees %s", m.data)
	}
	r.call(ada, "DELETE", "/api/v1/pools/"+other.ID, nil).want(204)
	if m := theirs.want("pool.deleted", "status", "problems"); !strings.Contains(m.data, other.ID) {
		t.Errorf("a neighbour is told of %s", m.data)
	}
	r.call(ada, "PATCH", "/api/v1/pools/"+r.seed.Pool.ID, map[string]any{"max": 7}).want(200)
	for _, want := range []string{`"max":8`, `"max":7`} {
		if m := mine.want("pool.updated", "status", "problems"); !strings.Contains(m.data, r.seed.Pool.ID) || !strings.Contains(m.data, want) {
			t.Errorf("a pool's viewer sees %s", m.data)
		}
	}
	r.fleet.problems.Raise("", problems.Problem{Code: problems.Unmatched})
	for m := blind.want("problems", "status"); !strings.Contains(m.data, "jobs.unmatched"); m = blind.want("problems", "status") {
	}
	r.call(r.as("nemo"), "GET", "/api/v1/events", nil).want(http.StatusForbidden)
	r.call("", "GET", "/api/v1/events", nil).want(http.StatusUnauthorized)
	r.call(r.tokenOf(r.user("tim", over(auth.Viewer)), "pools:read"), "GET", "/api/v1/events", nil).want(http.StatusForbidden)
}

// manyPools makes pools besides the seed's, and returns all.
func (r *rig) manyPools(n int) []store.Pool {
	r.t.Helper()
	list := []store.Pool{r.seed.Pool}
	for i := range n - 1 {
		p := r.seed.Pool
		p.ID, p.Name = "", fmt.Sprintf("many-%d", i)
		p, err := r.store.CreatePool(context.Background(), p)
		if err != nil {
			r.t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// change writes a pool and announces it, as a loop does.
func (r *rig) change(p store.Pool) {
	r.t.Helper()
	if err := r.store.UpdatePool(context.Background(), p); err != nil {
		r.t.Fatal(err)
	}
	r.fleet.bus.Publish(events.PoolChanged, p.ID)
}

// A client that was cut for a minute, in which a thousand things changed, gets exactly what one got that was there all the time.
func TestAClientThatIsCutForAMinuteMissesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ada := r.as("ada", over(auth.Viewer))
	pools := r.manyPools(41)
	final, pools := pools[40], pools[:40] // one is changed at the very end
	there, away := r.follow(ada, ""), r.follow(ada, "")
	there.want("hello")
	away.want("hello")
	r.change(pools[0])
	there.want("pool.updated", "status")
	away.want("pool.updated", "status")
	at := away.cut()
	const changes = 1000
	for i := range changes {
		p := &pools[i%len(pools)]
		p.Max = 1 + i
		r.change(*p)
		if i == changes/2 {
			r.now.step(time.Minute)
		}
	}
	final.Max = 7777
	r.change(final)
	back := r.follow(ada, "", "Last-Event-ID", at)
	collect := func(f *follower) (seen []message, last map[string]string) {
		last = map[string]string{}
		for {
			m, ok := f.next()
			if !ok || m.name != "pool.updated" && m.name != "status" {
				t.Fatalf("got %+v", m)
			}
			if m.name == "status" {
				continue // computed when it is sent
			}
			seen = append(seen, m)
			for i := range pools {
				if strings.Contains(m.data, `"id":"`+pools[i].ID+`"`) {
					last[pools[i].ID] = m.data
				}
			}
			if strings.Contains(m.data, `"max":7777,`) {
				return seen, last
			}
		}
	}
	all, _ := collect(there)
	replayed, last := collect(back)
	if len(all) != len(replayed) || len(all) < len(pools) {
		t.Fatalf("one that stayed got %d frames, one that came back %d", len(all), len(replayed))
	}
	for i := range all {
		if all[i] != replayed[i] {
			t.Fatalf("frame %d: %+v for one that stayed, %+v for one that came back", i, all[i], replayed[i])
		}
	}
	for _, p := range pools {
		if got := r.body(ada, "/api/v1/pools/"+p.ID); last[p.ID] != got {
			t.Errorf("the last that was told of a pool: %s\nwant %s", last[p.ID], got)
		}
	}
	// The same by the address, for clients that cannot set a header.
	again := r.follow(ada, "?after="+at)
	if m := again.want("pool.updated", "status"); m != all[0] {
		t.Errorf("after %s comes %+v, want %+v", at, m, all[0])
	}
}

func TestWhatCannotBeReplayedIsToldAsAReset(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, func(o *api.Options) { o.Streams.Frames = 8 })
	ada := r.as("ada", over(auth.Viewer))
	pools := r.manyPools(20)
	f := r.follow(ada, "")
	old := f.want("hello").id
	for _, p := range pools {
		r.change(p)
		f.want("pool.updated", "status")
	}
	for name, id := range map[string]string{"too old": old, "of another run": "abcdefgh-3", "not an ID": "x", "of the future": old + "000"} {
		late := r.follow(ada, "", "Last-Event-ID", id)
		m := late.want("reset")
		if !strings.Contains(m.data, "Read everything again") {
			t.Errorf("%s: %+v", name, m)
		}
		r.change(pools[0])
		if m := late.want("pool.updated", "status"); !strings.Contains(m.data, pools[0].ID) {
			t.Errorf("%s: after the reset comes %+v", name, m)
		}
		late.cut()
	}
	// Events were lost on their way to the frames: everybody is told, and goes on.
	for range 4 {
		f.want("pool.updated", "status")
	}
	r.server.LoseCount()
	was := f.last
	m := f.want("reset", "status", "pool.updated")
	if strings.Split(m.id, "-")[0] == strings.Split(was, "-")[0] {
		t.Errorf("the epoch is the same: %s and %s", was, m.id)
	}
	r.change(pools[1])
	if m := f.want("pool.updated", "status"); !strings.Contains(m.data, pools[1].ID) {
		t.Errorf("after the reset comes %+v", m)
	}
}

// A client that reads nothing delays nobody, is told that it lost something, and is dropped.
func TestASlowClientDelaysNobody(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, func(o *api.Options) { o.Streams = api.Streams{Frames: 16, Write: time.Minute} })
	ada := r.as("ada", over(auth.Viewer))
	slow, quick := r.open(ada, ""), r.follow(ada, "")
	quick.want("hello")
	p := r.seed.Pool
	p.Env = map[string]string{"LARGE": strings.Repeat("x", 200_000)}
	const changes = 100 // 20 MB: more than a connection holds
	for i := range changes {
		p.Max = 100 + i
		r.change(p)
		// The quick one has each frame before the next change is made.
		if m := quick.want("pool.updated", "status"); !strings.Contains(m.data, fmt.Sprintf(`"max":%d,`, p.Max)) {
			t.Fatalf("change %d: %.300s", i, m.data)
		}
	}
	slow.read()
	slow.want("hello")
	n := 0
	for {
		m, ok := slow.next()
		if !ok {
			t.Fatal("the slow one was dropped without a last word")
		}
		if m.name == "pool.updated" {
			n++
		}
		if m.name == "reset" {
			break
		}
	}
	slow.end()
	if n >= changes {
		t.Errorf("the slow one got %d frames, and nothing was lost", n)
	}
}

// A client that takes nothing at all is dropped when its time is over.
func TestAClientThatTakesNothingIsDropped(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, func(o *api.Options) { o.Streams = api.Streams{Write: 100 * time.Millisecond, Each: 1, Frames: 4} })
	ada := r.as("ada", over(auth.Viewer))
	r.silent(ada)
	p := r.seed.Pool
	p.Env = map[string]string{"LARGE": strings.Repeat("x", 200_000)}
	until(t, "it is gone", func() bool {
		// It is the one stream that its token may have: when there is room for another, it has been dropped.
		f := r.open(ada, "")
		head := make([]byte, len("HTTP/1.1 200"))
		if _, err := f.c.Read(head); err != nil {
			t.Fatal(err)
		}
		f.cut()
		p.Max++
		r.change(p)
		return string(head) == "HTTP/1.1 200"
	})
}

func TestAStreamEndsWithItsCredential(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, func(o *api.Options) { o.Streams.Heartbeat = 5 * time.Millisecond })
	ctx := context.Background()
	expires := func(name string) string {
		token := auth.NewToken(auth.PrefixAPI)
		u := r.user(name, over(auth.Viewer))
		if _, err := r.store.CreateAPIToken(ctx, store.APIToken{Name: name, Hash: auth.HashToken(token), UserID: u.ID, Scopes: []string{"*"}, Grants: u.Grants, ExpiresAt: r.now.now().Add(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		return token
	}
	revoked := r.as("bob", over(auth.Viewer))
	cara := r.user("cara", over(auth.Viewer))
	a, b, c := r.follow(expires("ada"), ""), r.follow(revoked, ""), r.follow(r.tokenOf(cara, "*"), "")
	for _, f := range []*follower{a, b, c} {
		f.want("hello")
	}
	tokens, err := r.store.APITokens(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range tokens {
		if x.Hash == auth.HashToken(revoked) {
			if err := r.store.DeleteAPIToken(ctx, x.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	if m := b.want("end", "status"); !strings.Contains(m.data, "no longer good") {
		t.Errorf("revoked: %+v", m)
	}
	b.end()
	// Grants that are taken away count at once, too.
	r.user("root", over(auth.Platform))
	cara.Grants = nil
	if err := r.store.UpdateUser(ctx, cara); err != nil {
		t.Fatal(err)
	}
	if m := c.want("end", "status"); !strings.Contains(m.data, "may no longer") {
		t.Errorf("without grants: %+v", m)
	}
	r.now.step(2 * time.Hour)
	a.want("end", "status")
	a.end()
}

func TestStreamsAreBoundedAndEnd(t *testing.T) {
	t.Parallel()
	r := newRigWith(t, func(o *api.Options) { o.Streams = api.Streams{Each: 2, Total: 3, Linger: time.Millisecond} })
	ada, bob := r.as("ada", over(auth.Viewer)), r.as("bob", over(auth.Viewer))
	first, second := r.follow(ada, ""), r.follow(ada, "")
	old := first.want("hello").id
	second.want("hello")
	if shed := r.call(ada, "GET", "/api/v1/events", nil).want(429); shed.header.Get("Retry-After") == "" {
		t.Errorf("headers: %v", shed.header)
	}
	third := r.follow(bob, "")
	third.want("hello")
	r.call(bob, "GET", "/api/v1/events", nil).want(503)
	for _, f := range []*follower{first, second, third} {
		f.cut()
	}
	until(t, "no frames are made when nobody follows", r.server.Resting)
	f := r.follow(ada, "", "Last-Event-ID", old)
	f.want("reset") // nobody kept what happened meanwhile
	r.server.Close()
	f.want("end", "status")
	f.end()
	r.call(ada, "GET", "/api/v1/events", nil).want(503)
	r.call(ada, "GET", "/api/v1/pools", nil).want(200)
	r.server.Close()
}
