package scheduler

import (
	"fmt"
	"strings"
	"time"
)

// count is a number and its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// span is a length of time for people, in whole seconds: "4s", "20m", "1h30m".
func span(d time.Duration) string {
	if d < time.Second {
		return "under 1s"
	}
	s := d.Truncate(time.Second).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// poolReason says what a pool goes from and to, and why: "pool linux: 1→3 runners, 2 jobs queued
// for 4s".
func (d *pass) poolReason(p *poolWork) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pool %s: ", p.Name)
	if to := p.live() + p.created; to != p.was {
		fmt.Fprintf(&b, "%d→%d runners", p.was, to)
	} else {
		b.WriteString(count(to, "runner"))
	}
	for _, why := range d.causes(p) {
		b.WriteString(", ")
		b.WriteString(why)
	}
	return b.String()
}

// causes are the facts that led to a pool's decision, those that drive it first.
func (d *pass) causes(p *poolWork) []string {
	if !p.Enabled {
		return []string{"disabled"}
	}
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if n := len(p.queue); n > 0 {
		if p.queue[0].QueuedAt.IsZero() {
			say("%s queued", count(n, "job"))
		} else {
			say("%s queued for %s", count(n, "job"), span(d.waited(p.queue[0])))
		}
	}
	if p.delayed > 0 {
		say("%d within the scale-up delay of %s", p.delayed, span(p.ScaleUpDelay))
	}
	if p.deferred > 0 {
		say("%d over the limit of %s for each repository", p.deferred, count(p.RepoLimit, "runner"))
	}
	if p.busy > 0 {
		say("%d busy", p.busy)
	}
	if p.desired > 0 && p.desired > p.busy+len(p.eligible) {
		say("the minimum is %d", p.Min)
	}
	if p.busy+len(p.eligible) > p.max() {
		say("the maximum is %d", p.max())
	}
	if len(out) == 0 {
		out = append(out, "no job queued")
	}
	if short := p.short - p.created; short > 0 {
		say("%s", d.shortReason(p, short))
	}
	return out
}

// shortReason says why a pool does not get everything it should have now.
func (d *pass) shortReason(p *poolWork, short int) string {
	switch p.stop {
	case stopPaused:
		return fmt.Sprintf("%d held back: %s", short, p.Paused.why(p.Name))
	case stopHeld:
		return fmt.Sprintf("%d held: %s", short, p.Held)
	case stopBackoff:
		return fmt.Sprintf("%d held back for %s after %s", short, span(p.stopUntil.Sub(d.now)), count(p.failures, "failure"))
	case stopLeaving:
		return fmt.Sprintf("%d held back until draining runners are gone", short)
	case stopBudget:
		return fmt.Sprintf("%d left for the next pass by the limit of %s in one pass", short, count(d.set.TickBudget, "create"))
	case notStopped, stopHosts:
	}
	if len(d.rooms.byName) == 0 {
		return fmt.Sprintf("no host for %d: the fleet has none", short)
	}
	var parts []string
	for _, c := range p.shape.all() {
		parts = append(parts, fmt.Sprintf("%d %s", c.Hosts, c.What))
	}
	return fmt.Sprintf("no host for %d: %s", short, strings.Join(parts, ", "))
}
