package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Make says what should be done now. The same snapshot has the same plan, whatever the order of its lists, and is not changed.
// Applying the plan and deciding again at the same moment plans nothing more.
func Make(s Snapshot) Plan {
	w := newWork(s)
	for _, m := range w.machines {
		w.judge(m)
	}
	w.standDown()
	w.serve()
	for _, m := range w.machines {
		w.idle(m)
	}
	slices.SortStableFunc(w.plan.Actions, func(a, b Action) int { return cmp.Compare(order(a.Kind), order(b.Kind)) })
	return w.plan
}

func order(k Kind) int {
	return slices.Index([]Kind{Hold, Quarantine, GiveUp, CancelDrain, Rent, Drain, Delete}, k)
}

// work is one decision while it is made.
type work struct {
	now       time.Time
	limits    Limits
	providers []*source // by name
	machines  []*unit   // by ID
	needs     []Need    // by pool
	total     int       // machines that exist or may
	plan      Plan
}

// source is a provider while a decision is made.
type source struct {
	Provider
	count    int       // its machines that exist or may
	trying   int       // those of them that are not ready yet
	lastPlan time.Time // of the newest of them
	until    time.Time // until when it is held
	held     string
}

// unit is a machine while a decision is made: one with a row, or one that this plan rents.
type unit struct {
	Machine
	from   *source
	doomed bool // this plan gives it up
	kept   bool // this plan cancels its drain
}

func newWork(s Snapshot) *work {
	w := &work{now: s.Now, limits: s.Limits.filled()}
	byID := map[string]*source{}
	for _, p := range s.Providers {
		x := &source{Provider: p, until: p.HeldUntil, held: p.HoldReason}
		w.providers = append(w.providers, x)
		byID[p.ID] = x
	}
	slices.SortFunc(w.providers, func(a, b *source) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID)) })
	for _, m := range s.Machines {
		if m.State == deleted {
			continue
		}
		u := &unit{Machine: m, from: byID[m.ProviderID]}
		w.machines = append(w.machines, u)
		w.total++
		if x := u.from; x != nil {
			x.count++
			if coming(m.State) {
				x.trying++
			}
			if m.CreatedAt.After(x.lastPlan) {
				x.lastPlan = m.CreatedAt
			}
		}
	}
	slices.SortFunc(w.machines, func(a, b *unit) int { return strings.Compare(a.ID, b.ID) })
	for _, n := range s.Needs {
		if n.Slots > 0 {
			w.needs = append(w.needs, n)
		}
	}
	slices.SortFunc(w.needs, func(a, b Need) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Pool, b.Pool), strings.Compare(a.PoolID, b.PoolID))
	})
	return w
}

func coming(state string) bool {
	return state == planned || state == creating || state == starting || state == bootstrapping || state == enrolling
}

func (w *work) do(a Action) { w.plan.Actions = append(w.plan.Actions, a) }

// later notes when something will be decided by the mere passing of time.
func (w *work) later(at time.Time) {
	if at.After(w.now) && (w.plan.Next.IsZero() || at.Before(w.plan.Next)) {
		w.plan.Next = at
	}
}

// due says whether a limit that began at a time is over; otherwise its end is when to look again.
func (w *work) due(since time.Time, limit time.Duration) bool {
	if at := since.Add(limit); w.now.Before(at) {
		w.later(at)
		return false
	}
	return true
}

// judge ends what has lasted too long, or what has lost its use, whether or not anything is needed.
func (w *work) judge(m *unit) {
	act := func(k Kind, format string, args ...any) {
		m.doomed = true
		if m.from != nil && coming(m.State) {
			m.from.trying--
		}
		w.do(Action{Kind: k, MachineID: m.ID, ProviderID: m.ProviderID, Reason: fmt.Sprintf(format, args...)})
	}
	switch m.State {
	case planned:
		if w.due(m.StateAt, w.limits.Create) {
			act(GiveUp, "its create could not be issued within %s", span(w.limits.Create))
		}
	case creating, starting:
		// Counted from the row, so that two states do not have twice the time.
		if !m.Joined && w.due(m.CreatedAt, w.limits.Create) {
			act(GiveUp, "it did not run within %s", span(w.limits.Create))
		}
	case bootstrapping:
		if !m.Joined && w.due(m.StateAt, w.limits.Boot) {
			act(GiveUp, "its guest was not heard from within %s of its start", span(w.limits.Boot))
		}
	case enrolling:
		if !m.Joined && w.due(m.StateAt, w.limits.Enrol) {
			act(GiveUp, "it did not join within %s of its first sign of life", span(w.limits.Enrol))
		}
	case deleting:
		if w.mayDelete(m) && w.due(m.StateAt, w.limits.Delete) {
			act(Quarantine, "it could not be proved gone within %s; see what is there, then release it", span(w.limits.Delete))
		}
	case failed:
		if w.mayDelete(m) && (!m.Identified || w.due(m.StateAt, w.limits.Failed)) {
			act(Delete, "what is left of a machine that failed is cleaned up")
		}
	case ready, draining:
		w.judgeHost(m, act)
	}
}

// judgeHost gives a machine back that is no host any more.
func (w *work) judgeHost(m *unit, act func(Kind, string, ...any)) {
	if !w.mayDelete(m) {
		return
	}
	switch h := m.Host; {
	case h == nil:
		act(Delete, "its host is gone")
	case !h.LostAt.IsZero() && h.Runners == 0 && w.due(h.LostAt, w.limits.Lost):
		act(Delete, "its host has been lost for %s", span(w.limits.Lost))
	}
}

// mayDelete says that the world is known well enough to take something away. A provider that is gone keeps nothing from being
// tried: the attempt ends in quarantine.
func (w *work) mayDelete(m *unit) bool { return m.from == nil || !m.from.Fenced }

// standDown gives a provider a rest that widens with each machine that fails.
func (w *work) standDown() {
	for _, x := range w.providers {
		if x.Streak < StandDownAfter {
			continue
		}
		until := x.FailedAt.Add(w.wait(x.Streak))
		if !until.After(w.now) || !until.After(x.until) {
			continue
		}
		x.until, x.held = until, fmt.Sprintf("%d machines of provider %s failed in a row", x.Streak, x.Name)
		w.do(Action{Kind: Hold, ProviderID: x.ID, Until: until,
			Reason: fmt.Sprintf("%s: the next one is tried at %s", x.held, until.UTC().Format(time.TimeOnly+" UTC"))})
	}
	for _, x := range w.providers {
		w.later(x.until)
	}
}

func (w *work) wait(streak int) time.Duration {
	d := w.limits.StandDown
	for i := StandDownAfter; i < streak && d < w.limits.MaxStandDown; i++ {
		d *= 2
	}
	return min(d, w.limits.MaxStandDown)
}

// idle drains a machine that nobody uses, and deletes one that has drained.
func (w *work) idle(m *unit) {
	if m.doomed || m.kept || m.from == nil || m.from.Fenced || m.Host == nil || m.Host.Runners > 0 {
		return
	}
	timeout := m.from.IdleTimeout
	if timeout <= 0 {
		timeout = DefaultIdleTimeout
	}
	switch {
	case m.State == draining:
		w.do(Action{Kind: Delete, MachineID: m.ID, ProviderID: m.ProviderID, Reason: "it is drained and no runner is left on it"})
	case m.State == ready && m.Host.Coming == 0 && !m.IdleSince.IsZero() && w.due(m.IdleSince, timeout):
		w.do(Action{Kind: Drain, MachineID: m.ID, ProviderID: m.ProviderID, Reason: fmt.Sprintf("it has been idle for %s", span(timeout))})
	}
}

// span is a duration for people.
func span(d time.Duration) string {
	s := d.Round(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
