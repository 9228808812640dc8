package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// serve answers what is needed: with machines that are on their way, then with drains that can be cancelled, then with new ones.
func (w *work) serve() {
	pool := w.onTheWay()
	for {
		rest := w.cover(pool)
		i := slices.IndexFunc(rest, func(n Need) bool { return n.Slots > 0 && w.reversible(n) != nil })
		if i < 0 {
			break
		}
		m := w.reversible(rest[i])
		m.kept = true
		pool = append(pool, m)
		w.do(Action{Kind: CancelDrain, MachineID: m.ID, ProviderID: m.ProviderID,
			Reason: fmt.Sprintf("pool %s needs %s again", rest[i].Pool, slots(rest[i].Slots))})
	}
	refused := map[string]Unmet{}
	for {
		rest := w.cover(pool)
		i := slices.IndexFunc(rest, func(n Need) bool { _, no := refused[n.PoolID]; return n.Slots > 0 && !no })
		if i < 0 {
			for _, n := range rest {
				if u, no := refused[n.PoolID]; no && n.Slots > 0 {
					u.Slots = n.Slots
					w.plan.Unmet = append(w.plan.Unmet, u)
				}
			}
			return
		}
		m, why := w.rent(rest[i])
		if m == nil {
			refused[rest[i].PoolID] = why
			continue
		}
		pool = append(pool, m)
	}
}

// onTheWay are the machines whose slots the scheduler cannot see yet. A machine that has joined is a host, which it sees; a draining
// one is no capacity.
func (w *work) onTheWay() []*unit {
	var list []*unit
	for _, m := range w.machines {
		if coming(m.State) && !m.Joined && !m.doomed {
			list = append(list, m)
		}
	}
	return list
}

// cover is what is still needed when the slots of machines are given away: to the pool that a machine was rented for, and what is
// left of it to whoever it fits. The order of the machines does not matter.
func (w *work) cover(machines []*unit) []Need {
	rest := slices.Clone(w.needs)
	list := slices.Clone(machines)
	slices.SortStableFunc(list, func(a, b *unit) int {
		return cmp.Or(strings.Compare(a.PoolID, b.PoolID), strings.Compare(a.ProviderID, b.ProviderID), strings.Compare(a.Shape.Name, b.Shape.Name),
			cmp.Compare(a.room(), b.room()))
	})
	left := make([]int, len(list))
	take := func(n *Need, i int) {
		if n.Slots == 0 || left[i] == 0 || list[i].unfit(*n) != "" {
			return
		}
		k := min(n.Slots, left[i])
		n.Slots -= k
		left[i] -= k
	}
	for i, m := range list {
		left[i] = m.room()
		for n := range rest {
			if rest[n].PoolID == m.PoolID {
				take(&rest[n], i)
			}
		}
	}
	for n := range rest {
		for i := range list {
			take(&rest[n], i)
		}
	}
	return rest
}

// room is how many runners a machine will take.
func (m *unit) room() int {
	n := m.Shape.Slots
	if m.Host != nil {
		n -= m.Host.Runners + m.Host.Coming
	}
	return max(n, 0)
}

func (m *unit) unfit(n Need) string {
	if m.from == nil {
		return "its provider is gone"
	}
	return unfit(m.from, m.Shape, n)
}

// reversible is a machine that drains since it was idle, and could serve a need.
func (w *work) reversible(n Need) *unit {
	for _, m := range w.machines {
		if m.State == draining && m.DrainedBy == "" && !m.Cordoned && !m.doomed && !m.kept && m.Host != nil && m.Host.LostAt.IsZero() &&
			!m.Host.Closed && m.room() > 0 && m.unfit(n) == "" {
			return m
		}
	}
	return nil
}

// rent plans a machine that serves a need, or says why none can be had.
func (w *work) rent(n Need) (*unit, Unmet) {
	var wait, never []string
	for _, x := range w.providers {
		shape, why := x.shape(n)
		if shape == nil {
			never = append(never, why)
			continue
		}
		if why := w.refuses(x); why != "" {
			wait = append(wait, why)
			continue
		}
		m := &unit{Machine: Machine{ProviderID: x.ID, State: planned, StateAt: w.now, CreatedAt: w.now, Shape: *shape, PoolID: n.PoolID}, from: x}
		x.count++
		x.trying++
		x.lastPlan = w.now
		w.total++
		w.do(Action{Kind: Rent, ProviderID: x.ID, Shape: shape.Name, PoolID: n.PoolID, Since: n.Since,
			Reason: fmt.Sprintf("pool %s needs %s more than there are or are coming", n.Pool, slots(n.Slots))})
		return m, Unmet{}
	}
	u := Unmet{PoolID: n.PoolID, Slots: n.Slots, Never: len(wait) == 0}
	switch {
	case len(w.providers) == 0:
		u.Reason = "there is no provider to rent machines from"
	case u.Never:
		u.Reason = fmt.Sprintf("no shape of any provider could serve pool %s: %s", n.Pool, strings.Join(never, "; "))
	default:
		u.Reason = strings.Join(wait, "; ")
	}
	return nil, u
}

// refuses says why no machine may be planned at a provider now; empty when one may.
func (w *work) refuses(x *source) string {
	switch {
	case !w.limits.Enabled:
		return "renting machines is switched off (provider.enabled)"
	case w.limits.MaxMachines <= 0:
		return "the fleet may have no rented machine (provider.max_machines is 0)"
	case !x.Enabled:
		return fmt.Sprintf("provider %s is disabled", x.Name)
	case x.MaxMachines <= 0:
		return fmt.Sprintf("provider %s may have no machine (its maximum is 0)", x.Name)
	case x.Paused != "":
		return fmt.Sprintf("provider %s is paused: %s", x.Name, x.Paused)
	case x.Fenced:
		return fmt.Sprintf("provider %s is fenced until every machine of it has been looked at", x.Name)
	case x.Preparing != "":
		return fmt.Sprintf("provider %s is not ready: %s", x.Name, x.Preparing)
	case x.until.After(w.now):
		return fmt.Sprintf("provider %s stands down: %s", x.Name, x.held)
	case x.count >= x.MaxMachines:
		return fmt.Sprintf("provider %s has %d of at most %d machines", x.Name, x.count, x.MaxMachines)
	case w.total >= w.limits.MaxMachines:
		return fmt.Sprintf("the fleet has %d of at most %d rented machines (provider.max_machines)", w.total, w.limits.MaxMachines)
	case x.Streak >= StandDownAfter && x.trying > 0:
		return fmt.Sprintf("provider %s failed %d times in a row, so one machine is tried at a time", x.Name, x.Streak)
	case x.Cooldown > 0 && !x.lastPlan.IsZero() && !w.due(x.lastPlan, x.Cooldown):
		return fmt.Sprintf("provider %s makes one machine every %s", x.Name, span(x.Cooldown))
	}
	return ""
}

// shape is the smallest that serves a whole need, or the largest there is; none when no shape fits, and why.
func (x *source) shape(n Need) (*Shape, string) {
	var best *Shape
	var why []string
	for i := range x.Shapes {
		s := &x.Shapes[i]
		if no := unfit(x, *s, n); no != "" {
			why = append(why, no)
			continue
		}
		if best == nil || closer(s, best, n.Slots) {
			best = s
		}
	}
	if best == nil && len(x.Shapes) == 0 {
		why = append(why, fmt.Sprintf("provider %s has no shape", x.Name))
	}
	return best, strings.Join(why, "; ")
}

func closer(a, b *Shape, need int) bool {
	enoughA, enoughB := a.Slots >= need, b.Slots >= need
	switch {
	case enoughA != enoughB:
		return enoughA
	case a.Slots == b.Slots:
		return a.Name < b.Name
	case enoughA:
		return a.Slots < b.Slots
	default:
		return a.Slots > b.Slots
	}
}

// unfit says why a machine of a shape could not serve a need; empty when it could.
func unfit(x *source, s Shape, n Need) string {
	arch := cmp.Or(s.Arch, "amd64")
	backends := x.Backends
	if len(backends) == 0 {
		backends = []string{"podman"}
	}
	switch {
	case s.Slots <= 0:
		return fmt.Sprintf("shape %s of provider %s holds no runner", s.Name, x.Name)
	case n.OS != "" && n.OS != "linux":
		return fmt.Sprintf("provider %s makes Linux machines and the pool asks for %s", x.Name, n.OS)
	case n.Arch != "" && n.Arch != arch:
		return fmt.Sprintf("shape %s of provider %s is %s and the pool asks for %s", s.Name, x.Name, arch, n.Arch)
	case n.Backend != "" && !slices.Contains(backends, n.Backend):
		return fmt.Sprintf("machines of provider %s have %s and the pool asks for %s", x.Name, strings.Join(backends, ", "), n.Backend)
	}
	for _, k := range slices.Sorted(maps.Keys(n.Selector)) {
		if v, ok := s.Labels[k]; !ok || v != n.Selector[k] {
			return fmt.Sprintf("shape %s of provider %s lacks the label %s=%s", s.Name, x.Name, k, n.Selector[k])
		}
	}
	return ""
}

func slots(n int) string {
	if n == 1 {
		return "1 runner slot"
	}
	return fmt.Sprintf("%d runner slots", n)
}
