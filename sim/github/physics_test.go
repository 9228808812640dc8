package github

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

const mintPath = "/orgs/acme/actions/runners/generate-jitconfig"

func TestPrimaryLimits(t *testing.T) { // field report A21
	t.Parallel()
	c := newClock()
	r := newRig(t, Options{Now: c.now, Limits: Limits{Core: 3, RunnerRegistration: 2, PointsPerMinute: 10000}})
	other := r.AddInstallation("rival", "Organization")
	rival := r.mintToken(other)
	for range 3 {
		r.do("GET", "/installation/repositories", "").want(200)
	}
	g := r.do("GET", "/installation/repositories", "").want(403).says("API rate limit exceeded for installation ID " + itoa(r.inst))
	reset, err := strconv.ParseInt(g.header.Get("X-Ratelimit-Reset"), 10, 64)
	if err != nil || g.header.Get("X-Ratelimit-Remaining") != "0" || g.header.Get("X-Ratelimit-Resource") != "core" ||
		time.Unix(reset, 0).Sub(c.now()) != time.Hour {
		t.Errorf("headers %v", g.header)
	}
	r.as(rival, "GET", "/installation/repositories", "").want(200) // each installation has its own budget
	r.do("POST", mintPath, jit("a", "x")).want(201)                // and each resource
	r.do("POST", mintPath, jit("b", "x")).want(201)
	if g := r.do("POST", mintPath, jit("c", "x")).want(403); g.header.Get("X-Ratelimit-Resource") != "actions_runner_registration" {
		t.Errorf("headers %v", g.header)
	}
	if len(r.Runners()) != 2 {
		t.Error("a refused request had an effect")
	}
	r.do("GET", "/rate_limit", "").want(200) // free
	c.add(time.Hour)
	r.token = r.mintToken(r.inst)
	r.do("GET", "/installation/repositories", "").want(200)

	r.SpendRate(r.inst, resourceCore, 99)
	r.do("GET", "/installation/repositories", "").want(403)
	st := r.Stats()
	if st.Limited != 3 || st.Mints != 2 || st.Rate[r.inst][resourceCore].Used != 3 || st.Requests["GET /installation/repositories"] != 7 || st.Responses[403] != 3 {
		t.Errorf("stats %+v", st)
	}
}

func TestSecondaryLimitOnPoints(t *testing.T) {
	t.Parallel()
	c := newClock()
	r := newRig(t, Options{Now: c.now})
	made := 0
	var g got
	for i := range 200 { // 900 points a minute: 180 changes, less what the rig's own token took
		if g = r.do("POST", mintPath, jit(fmt.Sprint("r", i), "x")); g.status != 201 {
			break
		}
		made++
	}
	if made != 179 {
		t.Errorf("%d registrations in a minute", made)
	}
	wait, err := strconv.Atoi(g.want(403).says("secondary rate limit").header.Get("Retry-After"))
	if err != nil || wait < 1 || wait > 61 {
		t.Errorf("retry-after %q", g.header.Get("Retry-After"))
	}
	c.add(time.Duration(wait) * time.Second)
	r.do("POST", mintPath, jit("late", "x")).want(201)
	if st := r.Stats(); st.PeakPoints != 900 {
		t.Errorf("peak of %d points", st.PeakPoints)
	}
}

func TestSecondaryLimitOnConcurrency(t *testing.T) {
	inBubble(t, Options{Latency: time.Second, Limits: Limits{Concurrent: 10}}, func(t *testing.T, r *rig) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		statuses := map[int]int{}
		for range 12 {
			wg.Go(func() {
				g := r.do("GET", "/installation/repositories", "")
				mu.Lock()
				defer mu.Unlock()
				statuses[g.status]++
				if g.status == 403 && g.header.Get("Retry-After") != "60" {
					t.Errorf("retry-after %q", g.header.Get("Retry-After"))
				}
			})
		}
		wg.Wait()
		if statuses[200] == 0 || statuses[403] == 0 || statuses[200]+statuses[403] != 12 {
			t.Errorf("answers %v", statuses)
		}
		if st := r.Stats(); st.PeakConcurrent != 12 {
			t.Errorf("peak %d", st.PeakConcurrent)
		}
	})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	reset := time.Now().Add(7 * time.Minute).Truncate(time.Second)
	tests := []struct {
		name    string
		fault   Fault
		status  int
		header  map[string]string
		says    string
		effects int // registrations made by the request that was hit
	}{
		{"primary limit", PrimaryLimit("POST", mintPath, reset), 403,
			map[string]string{"X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": itoa(reset.Unix())}, "API rate limit exceeded", 0},
		{"secondary limit 403", SecondaryLimit("POST", "/orgs/*/actions/runners/*", 403, 90*time.Second), 403,
			map[string]string{"Retry-After": "90"}, "secondary rate limit", 0},
		{"secondary limit 429", SecondaryLimit("", mintPath, 429, 1500*time.Millisecond), 429, map[string]string{"Retry-After": "2"}, "secondary", 0},
		{"secondary limit without a time", SecondaryLimit("", mintPath, 429, 0), 429, map[string]string{"Retry-After": ""}, "secondary", 0},
		{"refused connection", Fault{Path: mintPath, Drop: DropBefore}, 0, nil, "", 0},
		{"lost answer", LostAnswer("POST", mintPath), 0, nil, "", 1},
		{"outage", Outage("", ""), 502, nil, "Server Error", 0},
		{"own words", Fault{Path: mintPath, Status: 500, Body: `{"message":"no","documentation_url":"x"}`, Header: http.Header{"X-Own": {"1"}}}, 500,
			map[string]string{"X-Own": "1"}, `"message":"no"`, 0},
		{"of this installation", Fault{Path: mintPath, Installation: -1, Status: 500}, 201, nil, "", 1},
		{"of another method", Fault{Method: "GET", Path: mintPath, Status: 500}, 201, nil, "", 1},
		{"of another path", Fault{Path: "/orgs/*/actions", Status: 500}, 201, nil, "", 1},
		{"only slow", Fault{Path: mintPath, Delay: time.Millisecond}, 201, nil, "", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Options{})
			in := r.Inject(tt.fault)
			g := r.do("POST", mintPath, jit("one", "x"))
			g.want(tt.status).says(tt.says)
			for k, v := range tt.header {
				if g.header.Get(k) != v {
					t.Errorf("%s is %q, want %q", k, g.header.Get(k), v)
				}
			}
			if n := len(r.Runners()); n != tt.effects {
				t.Errorf("%d registrations, want %d", n, tt.effects)
			}
			if want := map[bool]int{true: 1}[tt.status != 201 || tt.fault.Delay > 0]; in.Hits() != want {
				t.Errorf("%d hits, want %d", in.Hits(), want)
			}
			in.Remove()
			want := 201 // once only, or removed: the name is free unless the lost answer took it
			if tt.effects == 1 {
				want = 409
			}
			r.do("POST", mintPath, jit("one", "x")).want(want)
		})
	}
}

func TestFaultCounts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fault Fault
		want  string // x: hit
	}{
		{Fault{}, "x......"},
		{Fault{Times: 3}, "xxx...."},
		{Fault{Times: -1}, "xxxxxxx"},
		{Fault{Skip: 2}, "..x...."},
		{Fault{Skip: 2, Times: -1}, "..xxxxx"},
		{Fault{Times: 2, Of: 3}, "xx.xx.x"},
		{Fault{Skip: 1, Times: 1, Of: 3}, ".x..x.."},
	} {
		r := newRig(t, Options{})
		tt.fault.Status, tt.fault.Path = 500, "/rate_limit"
		tt.fault.Body = problem(500, "no", docREST).body
		r.Inject(tt.fault)
		s := ""
		for range tt.want {
			s += map[int]string{500: "x", 200: "."}[r.do("GET", "/rate_limit", "").status]
		}
		if s != tt.want {
			t.Errorf("%+v hit %s, want %s", tt.fault, s, tt.want)
		}
	}
}

// TestFaultsOfOneInstallation leave the others alone.
func TestFaultsOfOneInstallation(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	rival := r.mintToken(r.AddInstallation("rival", "Organization"))
	f := SecondaryLimit("", "", 429, time.Minute)
	f.Installation, f.Times = r.inst, -1
	r.Inject(f)
	r.do("GET", "/installation/repositories", "").want(429)
	r.as(rival, "GET", "/installation/repositories", "").want(200)
}

func TestServersAreRepeatable(t *testing.T) {
	t.Parallel()
	ids := func(seed int64) string {
		c := newClock()
		s, err := New(Options{Seed: seed, Now: c.now})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		in := s.AddInstallation("acme", "Organization")
		s.AddRepository(in, repo)
		return fmt.Sprint(s.App().ID, in, s.QueueJob(JobSpec{Repository: repo, Labels: []string{"x"}}), s.App().WebhookSecret)
	}
	if first := ids(4); first != ids(4) || first == ids(5) {
		t.Error("a seed does not decide the ids")
	}
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.SetWebhookURL(r.sink.URL)
	f := r.mint("/orgs/acme", "one", "none").online()
	ended := make(chan int)
	go func() {
		status, _ := f.poll(t.Context())
		ended <- status
	}()
	queue(r, "zoomies")
	if err := r.Server.Close(); err != nil {
		t.Error(err)
	}
	if status := <-ended; status != 0 && status != 202 {
		t.Errorf("a poll at the end answered %d", status)
	}
	queue(r, "zoomies") // after the end: no effect outside, no panic
	if _, err := r.WaitJob(t.Context(), r.Jobs()[0].ID, StatusCompleted); err == nil {
		t.Error("waiting at a closed server has no error")
	}
	if err := r.Server.Close(); err != nil {
		t.Error(err)
	}
}

func TestAServerThatListensEverywhereIsReached(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Options{Listener: ln, PublicURL: "http://host.containers.internal:8080/"})
	r.do("GET", "/rate_limit", "").want(200)
	f := r.mint("/orgs/acme", "one", "x")
	if f.server != "http://host.containers.internal:8080"+runnerRoot {
		t.Errorf("runners are sent to %s", f.server)
	}
}
