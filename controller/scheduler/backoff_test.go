package scheduler

import (
	"fmt"
	"testing"
	"time"
)

func TestBackoffDoublesUpToItsBound(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for n, want := range []time.Duration{0, 10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 300 * s, 300 * s} {
		if got := DefaultTunables().backoff(n); got != want {
			t.Errorf("after %d failures: %s, want %s", n, got, want)
		}
	}
	if got := DefaultTunables().backoff(1 << 20); got != MaxStartBackoff {
		t.Errorf("after very many failures: %s", got)
	}
	long := Tunables{MaxStartBackoff: time.Hour, FailedRetention: time.Minute}.filled()
	if got := long.backoff(99); got != time.Minute {
		t.Errorf("the backoff of %s outlives the failures it is counted from", got)
	}
}

// fail adds n failures, the last so long ago.
func (f *fleet) fail(n int, last time.Duration, change ...func(*Runner)) *fleet {
	for i := range n {
		f.runner(fmt.Sprintf("failed_%d", i), "p", failed, append([]func(*Runner){func(r *Runner) {
			r.FinishedAt = ago(last + time.Duration(i)*time.Second)
		}}, change...)...)
	}
	return f
}

func TestBackoffHoldsCreatesBack(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for _, c := range []struct {
		rule    string
		fleet   *fleet
		creates int
		until   time.Time
	}{
		{"within the wait nothing is created", newFleet().pool("p", nil).fail(1, 9*s), 0, now.Add(s)},
		{"after the wait it is", newFleet().pool("p", nil).fail(1, 10*s), 1, time.Time{}},
		{"the wait counts from the last failure", newFleet().pool("p", nil).fail(3, 39*s), 0, now.Add(s)},
		{"and doubles with each", newFleet().pool("p", nil).fail(3, 40*s), 1, time.Time{}},
		{"warm runners wait too", newFleet().pool("p", nil, func(p *Pool) { p.Min = 2 }).fail(2, 19*s), 0, now.Add(s)},
		{"failures past their retention do not count", newFleet().tune(func(t *Tunables) { t.FailedRetention = 4 * s }).pool("p", nil).fail(5, 4*s), 1, time.Time{}},
		{"another pool's failures do not count", newFleet().pool("p", nil).pool("q", labels("q")).fail(5, s, func(r *Runner) { r.PoolID = "pool_q" }), 1, time.Time{}},
		{"failures on a lost host are the host's", newFleet().pool("p", nil).host("b", 5, func(h *Host) { h.Lost = true }).fail(5, s, func(r *Runner) { r.HostID = "hst_b" }), 1, time.Time{}},
		{"a failure of the future waits no longer than one of now", newFleet().pool("p", nil).fail(1, -time.Hour), 0, now.Add(10 * s)},
		{"a start that fails in this decision counts", newFleet().pool("p", nil).runner("stuck", "p", provisioning, func(r *Runner) { r.CreatedAt = ago(time.Hour) }), 0, now.Add(10 * s)},
	} {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			plan := c.fleet.host("a", 9).job("j", nil).decide()
			if n := len(of(plan, Create)); c.creates == 0 && n != 0 || c.creates != 0 && n != c.creates {
				t.Errorf("%d creates, want %d", n, c.creates)
			}
			b := decision(t, plan, "p").Blocked
			if (b != nil) != (c.creates == 0) || b != nil && (!b.Until.Equal(c.until) || b.Fix == "" || b.AtCapacity) {
				t.Errorf("blocked is %+v, want until %s", b, c.until)
			}
		})
	}
}
