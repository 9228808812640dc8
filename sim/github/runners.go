package github

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// impliedLabels are the labels that every runner of ours has without asking.
var impliedLabels = []string{"self-hosted", "Linux", "X64"}

// defaultGroup is the runner group that every account has.
const (
	defaultGroup     = 1
	defaultGroupName = "Default"
)

// Runner is a registration.
type Runner struct {
	ID           int64
	Name         string
	Labels       []string
	Online, Busy bool
	RegisteredAt time.Time // minted
	OnlineAt     time.Time // first session; zero before
	Ephemeral    bool
	Scope        string // organisation, or "owner/name"
	JobID        int64  // the job that it has, or had last; 0 if none
}

type runner struct {
	id         int64
	name       string
	org        *account    // set for an organisation's runner
	repo       *repository // set for a repository's runner
	labels     []string    // every label, implied ones first
	group      int64
	ephemeral  bool
	credential string
	version    string

	registered, online, idleSince, removed time.Time

	session *session
	job     *job  // assigned or running
	lastJob int64 // that it began
}

func (r *runner) scope() string {
	if r.repo != nil {
		return r.repo.fullName
	}
	return r.org.login
}

func (r *runner) public() Runner {
	p := Runner{
		ID: r.id, Name: r.name, Labels: slices.Clone(r.labels), Online: r.session != nil, Busy: r.job != nil,
		RegisteredAt: r.registered, OnlineAt: r.online, Ephemeral: r.ephemeral, Scope: r.scope(), JobID: r.lastJob,
	}
	if r.job != nil {
		p.JobID = r.job.id
	}
	return p
}

// serves says whether a job may run on r: r's scope has the job's repository and r has all of the job's labels.
func (r *runner) serves(j *job) bool {
	if r.repo != nil && r.repo != j.run.repo || r.repo == nil && r.org != j.run.repo.owner {
		return false
	}
	for _, want := range j.labels {
		if !slices.ContainsFunc(r.labels, func(have string) bool { return strings.EqualFold(have, want) }) {
			return false
		}
	}
	return len(j.labels) > 0
}

// register makes a registration. Called under mu, name known to be free.
func (s *Server) register(name string, org *account, repo *repository, group int64, labels []string) *runner {
	now := s.now()
	r := &runner{
		id: s.newID(), name: name, org: org, repo: repo, group: group, ephemeral: true,
		credential: s.token("", 48), registered: now, idleSince: now, labels: slices.Clone(impliedLabels),
	}
	for _, l := range labels {
		if !slices.ContainsFunc(r.labels, func(have string) bool { return strings.EqualFold(have, l) }) {
			r.labels = append(r.labels, l)
		}
	}
	s.world.runners[r.id] = r
	s.world.credentials[r.credential] = r
	s.physics.mints++
	s.touch()
	return r
}

// runnerNamed finds a registration by name in a scope. Called under mu.
func (s *Server) runnerNamed(name string, org *account, repo *repository) *runner {
	for _, r := range s.world.runners {
		if r.org == org && r.repo == repo && strings.EqualFold(r.name, name) {
			return r
		}
	}
	return nil
}

// unregister removes a registration: its session ends, and its runner hears so at its next word. Called under mu.
func (s *Server) unregister(r *runner) {
	if s.world.runners[r.id] != r {
		return
	}
	delete(s.world.runners, r.id)
	r.removed = s.now()
	r.session = nil
	s.world.gone = append(s.world.gone, r)
	s.touch()
}

// freeRunner takes a job off a runner that has not begun it. Called under mu.
func (s *Server) freeRunner(r *runner) {
	if r.job != nil {
		j := r.job
		j.runner, j.runnerID, j.runnerName, j.assigned = nil, 0, "", time.Time{}
		j.listed = true
		s.world.queue = slices.Insert(s.world.queue, 0, j) // it has waited longest
	}
	r.job = nil
	r.idleSince = s.now()
}

// Runners is every registration of every account, by id.
func (s *Server) Runners() []Runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return publicRunners(s.runnersByID())
}

// RunnerHistory is every registration that is gone, in the order of their ends.
func (s *Server) RunnerHistory() []Runner {
	s.mu.Lock()
	defer s.mu.Unlock()
	return publicRunners(s.world.gone)
}

func publicRunners(rs []*runner) []Runner {
	out := make([]Runner, 0, len(rs))
	for _, r := range rs {
		out = append(out, r.public())
	}
	return out
}

func (s *Server) runnersByID() []*runner {
	out := make([]*runner, 0, len(s.world.runners))
	for _, r := range s.world.runners {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *runner) int { return int(a.id - b.id) })
	return out
}

// RemoveRunner deletes an idle registration as GitHub sometimes does by itself; its runner is told. It says whether it did.
func (s *Server) RemoveRunner(id int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.world.runners[id]
	if r == nil || r.job != nil {
		return false
	}
	s.unregister(r)
	return true
}

// AddForeignRunner registers a runner that is not ours, offline, in the first installation's account; it returns its id, 0 without an installation.
func (s *Server) AddForeignRunner(name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first *installation
	for _, in := range s.world.installations {
		if first == nil || in.id < first.id {
			first = in
		}
	}
	if first == nil {
		return 0
	}
	var r *runner
	switch {
	case first.account.org:
		r = s.register(name, first.account, nil, defaultGroup, []string{"somebody-elses"})
	case len(first.repos) > 0:
		r = s.register(name, nil, first.repos[0], defaultGroup, []string{"somebody-elses"})
	default:
		return 0
	}
	r.ephemeral = false
	s.physics.mints-- // nobody asked the API for it
	return r.id
}

// assign gives queued jobs, oldest first, to runners that wait for one. Called under mu.
func (s *Server) assign() {
	var idle []*runner
	for _, r := range s.runnersByID() {
		if r.job == nil && r.session != nil && r.session.polling > 0 && !(r.ephemeral && r.session.served) {
			idle = append(idle, r)
		}
	}
	if len(idle) == 0 {
		return
	}
	left := s.world.queue[:0]
	for _, j := range s.world.queue {
		if j.status != StatusQueued {
			j.listed = false
			continue
		}
		if i := slices.IndexFunc(idle, func(r *runner) bool { return r.serves(j) }); i >= 0 {
			j.listed = false
			s.give(j, idle[i])
			idle = slices.Delete(idle, i, i+1)
			continue
		}
		left = append(left, j)
	}
	clear(s.world.queue[len(left):])
	s.world.queue = left
}

// give assigns one job to one runner. Called under mu.
func (s *Server) give(j *job, r *runner) {
	r.job, j.runner, j.runnerOnline, j.assigned = j, r, r.online, s.now()
	j.runnerID, j.runnerName, j.groupID = r.id, r.name, r.group
	s.touch()
}

// Register makes a JIT registration without the API, for those who test a runner and not a client. scope is an
// organisation or "owner/name", known to the server.
func (s *Server) Register(scope, name string, labels ...string) (id int64, jit string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	org, repo := s.world.accounts[strings.ToLower(scope)], s.world.repositories[strings.ToLower(scope)]
	switch {
	case org == nil && repo == nil:
		return 0, "", fmt.Errorf("cannot register %s: there is no %s", name, scope)
	case s.runnerNamed(name, org, repo) != nil:
		return 0, "", fmt.Errorf("cannot register %s: the name is taken", name)
	}
	r := s.register(name, org, repo, defaultGroup, labels)
	if jit, err = s.jitConfig(r, "_work"); err != nil {
		s.unregister(r)
		return 0, "", err
	}
	return r.id, jit, nil
}
