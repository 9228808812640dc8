package scheduler

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// scope is whom a pool serves: an account, or one repository of it.
type scope struct{ account, repository string }

// matcher gives each job its pool. Jobs that ask for the same thing share one answer.
type matcher struct {
	index  labelIndex
	scopes map[scope][]*poolWork // in order of name
	groups map[string]*group
	key    []byte
}

// group is every job that asks for the same labels of the same pools.
type group struct {
	ask    words
	need   labelSet
	alien  int // labels that no pool lists
	pools  [2][]*poolWork
	pool   *poolWork // the one that takes the jobs; nil when none does
	reason string    // why none does
	hosted bool
}

func newMatcher(pools []*poolWork, hosts rooms) *matcher {
	m := &matcher{index: labelIndex{}, scopes: map[scope][]*poolWork{}, groups: map[string]*group{}}
	for _, p := range pools {
		m.index.add(p.offer.own)
		s := scope{p.Account, normalise(p.Repository)}
		m.scopes[s] = append(m.scopes[s], p)
	}
	found := map[string]platform{}
	for _, p := range pools {
		p.labels, _ = m.index.set(p.offer.own)
		p.os = platformBits(osName(p.OS), osBits, p.offer.os)
		p.arch = platformBits(archName(p.Arch), archBits, p.offer.arch)
		p.infer(hosts, found)
	}
	return m
}

// group finds the group of a job, and answers it when it is the first of its kind.
func (m *matcher) group(j *Job) *group {
	own := scope{j.Account, normalise(j.Repository)}
	if own.repository == "" || len(m.scopes[own]) == 0 {
		own.repository = "" // no pool cares which repository it is
	}
	m.key = m.key[:0]
	m.put(own.account)
	m.put(own.repository)
	for _, l := range j.Labels {
		m.put(l)
	}
	if g := m.groups[string(m.key)]; g != nil {
		return g
	}
	g := &group{ask: parseLabels(j.Labels)}
	g.need, g.alien = m.index.set(g.ask.own)
	g.pools[0] = m.scopes[scope{j.Account, ""}]
	if own.repository != "" {
		g.pools[1] = m.scopes[own]
	}
	g.answer(m)
	m.groups[string(m.key)] = g
	return g
}

// put adds a string to the key so that no two lists of strings share one.
func (m *matcher) put(s string) {
	m.key = binary.AppendUvarint(m.key, uint64(len(s)))
	m.key = append(m.key, s...)
}

// answer picks the pool with the fewest labels that the job did not ask for, ties by name, or says
// why there is none.
func (g *group) answer(m *matcher) {
	surplus := 0
	for p := range g.each {
		if !p.Enabled || !g.takes(p) {
			continue
		}
		n := p.labels.minus(g.need)
		if g.pool == nil || n < surplus || n == surplus && p.order < g.pool.order {
			g.pool, surplus = p, n
		}
	}
	if g.pool == nil {
		g.hosted = g.ask.hosted()
		g.reason = g.refusal(m)
	}
}

// each visits the pools that serve the job's account and repository.
func (g *group) each(visit func(*poolWork) bool) {
	for _, pools := range g.pools {
		for _, p := range pools {
			if !visit(p) {
				return
			}
		}
	}
}

// takes reports whether a pool supplies every label of the job, on a platform that suits it.
func (g *group) takes(p *poolWork) bool {
	return g.alien == 0 && g.need.minus(p.labels) == 0 && g.suits(p)
}

func (g *group) suits(p *poolWork) bool {
	return !contradicts(p.os, g.ask.os) && !contradicts(p.arch, g.ask.arch)
}

// refusal says in a sentence why no pool takes the job, naming the pool that is nearest to it.
func (g *group) refusal(m *matcher) string {
	var off, near *poolWork
	lacks := 0
	for p := range g.each {
		if g.takes(p) {
			if off == nil || p.order < off.order {
				off = p // it would match: only a disabled one can have been passed over
			}
			continue
		}
		n := 2 * (g.alien + g.need.minus(p.labels))
		if !g.suits(p) {
			n++
		}
		if near == nil || n < lacks || n == lacks && p.order < near.order {
			near, lacks = p, n
		}
	}
	switch {
	case off != nil:
		return fmt.Sprintf("pool %s would take it, but is disabled", off.Name)
	case g.hosted:
		return fmt.Sprintf("GitHub's own machines serve %s, and no pool lists it", strings.Join(g.ask.own, ", "))
	case near != nil:
		return fmt.Sprintf("no pool has all of its labels: pool %s comes nearest, but %s", near.Name, g.misses(near, m))
	default:
		return "no pool serves its account and repository"
	}
}

// misses says what keeps the job from a pool that serves its repository.
func (g *group) misses(p *poolWork, m *matcher) string {
	var lacks []string
	for _, l := range g.ask.own {
		if n, ok := m.index[l]; !ok || p.labels[n/64]&(1<<(n%64)) == 0 {
			lacks = append(lacks, l)
		}
	}
	switch {
	case len(lacks) > 0:
		return "lacks " + strings.Join(lacks, ", ")
	case !g.suits(p):
		return fmt.Sprintf("is for %s and the job asks for %s", platformNames(p), strings.Join(g.ask.platform, "/"))
	default:
		return ""
	}
}
