package scheduler

import (
	"fmt"
	"math/rand"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestNoHostIsGivenMoreThanItsSlots(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		after := runnersBy(apply(s, p), byHost, holding...)
		for _, a := range of(p, Create) {
			i := slices.IndexFunc(s.Hosts, func(h Host) bool { return h.ID == a.HostID })
			if h := s.Hosts[i]; after[a.HostID] > h.Capacity {
				t.Fatalf("host %s holds %d with %d slots", h.ID, after[h.ID], h.Capacity)
			}
		}
	})
}

func TestEveryCreateIsOnAHostThatFits(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		for _, a := range of(p, Create) {
			h := s.Hosts[slices.IndexFunc(s.Hosts, func(h Host) bool { return h.ID == a.HostID })]
			q := s.Pools[slices.IndexFunc(s.Pools, func(p Pool) bool { return p.ID == a.PoolID })]
			offers := slices.ContainsFunc(h.Backends, func(b string) bool { return normalise(b) == normalise(q.Backend) })
			if h.Cordoned || h.Lost || s.Now.Sub(h.LastHeartbeat) >= HeartbeatTimeout || !offers || q.Held != "" || q.Paused != nil || h.Draining || !q.Enabled {
				t.Fatalf("pool %+v is placed on host %+v", q, h)
			}
			if z, ok := q.HostSelector["zone"]; ok && h.Labels["zone"] != z {
				t.Fatalf("pool %+v is placed on host %+v", q, h)
			}
		}
	})
}

func TestMinimumAndMaximumHold(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		after := apply(s, p)
		all, live := runnersBy(after, byPool, holding...), runnersBy(after, byPool, provisioning, registering, idle, busy)
		creates := perPool(p)
		for _, q := range s.Pools {
			if creates[q.ID[len("pool_"):]] > 0 && all[q.ID] > q.Max {
				t.Fatalf("pool %s has %d runners with a maximum of %d", q.ID, all[q.ID], q.Max)
			}
			d := p.Pools[slices.IndexFunc(p.Pools, func(d PoolDecision) bool { return d.PoolID == q.ID })]
			least := min(q.Min, q.Max)
			if !q.Enabled {
				least = 0
			}
			if d.Desired > q.Max || d.Desired < least {
				t.Fatalf("pool %s wants %d of %d to %d", q.ID, d.Desired, q.Min, q.Max)
			}
			// Below what is desired only with a cause: no room, a hold, a backoff.
			if live[q.ID] < d.Desired && d.Blocked == nil {
				t.Fatalf("pool %s has %d of %d runners and is not blocked: %s", q.ID, live[q.ID], d.Desired, d.Reason)
			}
			if d.Blocked != nil && (d.Blocked.Wanted != d.Desired-live[q.ID] || d.Blocked.Fix == "") {
				t.Fatalf("pool %s lacks %d and is blocked for %+v", q.ID, d.Desired-live[q.ID], d.Blocked)
			}
			// Taking away never goes below what is desired, but for a lifetime or an emptying host.
			if s.Tunables.MaxLifetime == 0 && q.Enabled {
				gone := 0
				for _, a := range p.Actions {
					if a.PoolID == q.ID && (a.Kind == Retire || a.Kind == Withdraw) && !drains(s, runner(s, a.RunnerID)) {
						gone++
					}
				}
				if gone > 0 && live[q.ID] < d.Desired {
					t.Fatalf("pool %s was shrunk below the %d it needs", q.ID, d.Desired)
				}
			}
		}
	})
}

func TestNoJobIsAnsweredTwice(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		seen := map[string]bool{}
		for _, a := range of(p, Create) {
			if a.JobID == "" {
				continue
			}
			i := slices.IndexFunc(s.Jobs, func(j Job) bool { return j.ID == a.JobID })
			if seen[a.JobID] || i < 0 || s.Jobs[i].State != queued {
				t.Fatalf("job %s is answered again, or does not wait", a.JobID)
			}
			seen[a.JobID] = true
		}
	})
}

func TestASecondDecisionChangesNothing(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		if again := Decide(apply(s, p)); len(again.Actions) != 0 {
			t.Fatalf("the second decision does %+v after %+v", again.Actions, p.Actions)
		}
	})
}

// A budget cuts a plan into several. Together they are no more than the whole, and they end.
func TestABudgetOnlySpreadsThePlan(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, whole Plan) {
		s.Tunables.TickBudget = rapid.IntRange(1, 3).Draw(t, "budget")
		total, answers := 0, map[string]bool{}
		for range 40 {
			p := Decide(s)
			creates := of(p, Create)
			if len(creates) > s.Tunables.TickBudget {
				t.Fatalf("%d creates with a budget of %d", len(creates), s.Tunables.TickBudget)
			}
			for _, a := range creates {
				if a.JobID != "" && answers[a.JobID] {
					t.Fatalf("job %s is answered twice", a.JobID)
				}
				answers[a.JobID] = true
			}
			if len(p.Actions) == 0 {
				break
			}
			total += len(creates)
			s = apply(s, p)
		}
		if n := len(of(whole, Create)); total != n {
			t.Fatalf("%d creates in all, %d without a budget", total, n)
		}
	})
}

func TestBusyAndDrainingRunnersAreLeftAlone(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		touched := map[string]bool{}
		for _, a := range p.Actions {
			if a.Kind == Create {
				continue
			}
			r := s.Runners[slices.IndexFunc(s.Runners, func(r Runner) bool { return r.ID == a.RunnerID })]
			allowed := map[Kind][]string{Remove: {failed}, Fail: {provisioning, registering}, Withdraw: {provisioning, registering}, Retire: {idle}, Drain: {busy}}
			if touched[r.ID] || !slices.Contains(allowed[a.Kind], r.State) || r.PoolID != a.PoolID {
				t.Fatalf("%+v of %+v", a, r)
			}
			touched[r.ID] = true
			if a.Kind == Drain && !drains(s, r) {
				t.Fatalf("busy runner %+v is drained and its host is not", r)
			}
		}
	})
}

func TestTheOrderOfTheSnapshotDoesNotMatter(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		shuffled := s
		shuffled.Pools, shuffled.Runners, shuffled.Jobs, shuffled.Hosts = slices.Clone(s.Pools), slices.Clone(s.Runners), slices.Clone(s.Jobs), slices.Clone(s.Hosts)
		r := rand.New(rand.NewSource(rapid.Int64().Draw(t, "seed")))
		r.Shuffle(len(s.Pools), func(i, j int) { shuffled.Pools[i], shuffled.Pools[j] = shuffled.Pools[j], shuffled.Pools[i] })
		r.Shuffle(len(s.Runners), func(i, j int) {
			shuffled.Runners[i], shuffled.Runners[j] = shuffled.Runners[j], shuffled.Runners[i]
		})
		r.Shuffle(len(s.Jobs), func(i, j int) { shuffled.Jobs[i], shuffled.Jobs[j] = shuffled.Jobs[j], shuffled.Jobs[i] })
		r.Shuffle(len(s.Hosts), func(i, j int) { shuffled.Hosts[i], shuffled.Hosts[j] = shuffled.Hosts[j], shuffled.Hosts[i] })
		if again := Decide(shuffled); !reflect.DeepEqual(again, p) {
			t.Fatalf("in another order the plan is\n%+v\nnot\n%+v", again, p)
		}
	})
}

func TestTheSnapshotIsNotChanged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		before := fmt.Sprintf("%#v", s)
		Decide(s)
		if len(s.Jobs) > 0 {
			Explain(s, s.Jobs[0].ID)
		}
		if after := fmt.Sprintf("%#v", s); after != before {
			t.Fatalf("the snapshot was\n%s\nand is\n%s", before, after)
		}
	})
}

// Naming a platform, on a pool or by a host's agent, only ever narrows where runners go.
func TestAddingAPlatformNeverWidensPlacement(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawSnapshot(t)
		fitting := func(s Snapshot) map[string]bool {
			d, out := decide(&s), map[string]bool{}
			for _, p := range d.pools {
				for _, h := range (shapes{}).of(d, p).fitting {
					out[p.ID+" on "+h.ID] = true
				}
			}
			return out
		}
		narrow := s
		narrow.Pools, narrow.Hosts = slices.Clone(s.Pools), slices.Clone(s.Hosts)
		for i := range narrow.Pools {
			if p := &narrow.Pools[i]; p.OS == "" {
				p.OS = rapid.SampledFrom([]string{"", "linux", "windows"}).Draw(t, "os added")
			}
		}
		for i := range narrow.Hosts {
			if h := &narrow.Hosts[i]; h.Arch == "" {
				h.Arch = rapid.SampledFrom([]string{"", "arm64", "x64"}).Draw(t, "arch added")
			}
		}
		wide := fitting(s)
		for place := range fitting(narrow) {
			if !wide[place] {
				t.Fatalf("%s only with more platforms named", place)
			}
		}
	})
}

// A pool is short of a host that would fit it only if no pool of a lower priority got a runner there.
func TestPriorityIsRespected(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		after := runnersBy(apply(s, p), byHost, holding...)
		d := decide(&s)
		for _, high := range d.pools {
			if high.stop != stopHosts {
				continue
			}
			for _, c := range d.creates {
				if c.pool.Priority >= high.Priority {
					continue
				}
				for _, h := range high.shape.fitting {
					if h.ID == c.room.ID {
						t.Fatalf("pool %s lacks a slot on %s, where the lower pool %s got one of %d", high.ID, h.ID, c.pool.ID, after[h.ID])
					}
				}
			}
		}
	})
}

func TestEverythingHasAReason(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		for _, a := range p.Actions {
			if a.Reason == "" || a.PoolID == "" || (a.Kind == Create) != (a.HostID != "") || (a.Kind == Create) != (a.RunnerID == "") {
				t.Fatalf("%+v", a)
			}
		}
		for _, d := range p.Pools {
			if d.Reason == "" {
				t.Fatalf("%+v", d)
			}
		}
		for _, u := range p.Unmatched {
			if u.Reason == "" {
				t.Fatalf("%+v", u)
			}
		}
	})
}

func TestActionsComeInTheOrderOfTheirKinds(t *testing.T) {
	property(t, func(t *rapid.T, _ Snapshot, p Plan) {
		order := []Kind{Remove, Fail, Retire, Withdraw, Drain, Create}
		if !slices.IsSortedFunc(p.Actions, func(a, b Action) int { return slices.Index(order, a.Kind) - slices.Index(order, b.Kind) }) {
			t.Fatalf("%+v", p.Actions)
		}
	})
}

func TestEveryQueuedJobIsClaimedOrUnmatched(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		claimed, waiting := 0, 0
		for _, d := range p.Pools {
			claimed += d.Queued
		}
		unmatched := map[string]bool{}
		for _, u := range p.Unmatched {
			unmatched[u.JobID] = true
		}
		for _, j := range s.Jobs {
			if j.State != queued {
				continue
			}
			waiting++
			e := Explain(s, j.ID)
			if (e.PoolID == "") != unmatched[j.ID] || e.Why == "" || e.Change == "" {
				t.Fatalf("job %+v is explained by %+v", j, e)
			}
			if takes := slices.ContainsFunc(e.Pools, func(v PoolVerdict) bool { return v.Takes }); takes == unmatched[j.ID] {
				t.Fatalf("job %+v: the verdicts are %+v", j, e.Pools)
			}
		}
		if len(unmatched) != len(p.Unmatched) || claimed+len(unmatched) != waiting {
			t.Fatalf("%d claimed and %d unmatched of %d queued", claimed, len(p.Unmatched), waiting)
		}
	})
}

// Explain and Decide tell the same story of a job.
func TestExplainAgreesWithDecide(t *testing.T) {
	property(t, func(t *rapid.T, s Snapshot, p Plan) {
		created := map[string]string{}
		for _, a := range of(p, Create) {
			created[a.JobID] = a.HostID
		}
		for _, j := range s.Jobs {
			if e := Explain(s, j.ID); j.State == queued && (e.Wait == WaitCreate) != (created[j.ID] != "") || e.HostID != created[j.ID] {
				t.Fatalf("job %s: explained by %+v, created on %q", j.ID, e, created[j.ID])
			}
		}
	})
}
