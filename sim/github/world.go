package github

import (
	"slices"
	"strings"
	"time"
)

// world is what this GitHub knows. Guarded by Server.mu.
type world struct {
	installations map[int64]*installation
	repositories  map[string]*repository // by lower-case full name
	accounts      map[string]*account    // by lower-case login
	tokens        map[string]*installToken
	runs          map[int64]*run
	jobs          map[int64]*job
	jobOrder      []int64
	queue         []*job             // queued without a runner, oldest first; may hold jobs that are queued no more
	credentials   map[string]*runner // of every registration ever
	runners       map[int64]*runner  // registered now
	gone          []*runner          // removed, kept for the list lag and for Runners' history
	regTokens     int

	listLag    time.Duration
	idleDelete time.Duration
	lostAfter  time.Duration
	deprecated bool
	manifests  map[string]*manifest // by code
	approval   bool                 // installing takes an owner's approval
}

type account struct {
	id    int64
	login string
	org   bool
}

type installation struct {
	id      int64
	account *account
	created time.Time
	repos   []*repository

	suspended   time.Time         // zero while it is not
	permissions map[string]string // nil: what the App asks for
	events      []string
}

type repository struct {
	id           int64
	fullName     string
	owner        *account
	installation *installation // nil: of a known account, but not given to the App
	created      time.Time
	workflows    map[string]int64
	runs         int
}

type installToken struct {
	installation *installation
	expires      time.Time
}

func (w *world) init() {
	w.installations = map[int64]*installation{}
	w.repositories = map[string]*repository{}
	w.accounts = map[string]*account{}
	w.tokens = map[string]*installToken{}
	w.runs = map[int64]*run{}
	w.jobs = map[int64]*job{}
	w.runners = map[int64]*runner{}
	w.credentials = map[string]*runner{}
	w.manifests = map[string]*manifest{}
	w.lostAfter = 2 * time.Minute
}

// split is the owner's login and the repository's name.
func (r *repository) split() (owner, name string) {
	owner, name, _ = strings.Cut(r.fullName, "/")
	return owner, name
}

// AddInstallation installs the App on an account and returns the installation's id. accountType is
// "Organization" or "User".
func (s *Server) AddInstallation(accountName, accountType string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.install(s.account(accountName, !strings.EqualFold(accountType, "User"))).id
}

// install installs the App on an account. Called under mu.
func (s *Server) install(acc *account) *installation {
	in := &installation{id: s.newID(), account: acc, created: s.now()}
	s.world.installations[in.id] = in
	return in
}

// account finds or makes an account. Called under mu.
func (s *Server) account(login string, org bool) *account {
	key := strings.ToLower(login)
	if a, ok := s.world.accounts[key]; ok {
		return a
	}
	a := &account{id: s.newID(), login: login, org: org}
	s.world.accounts[key] = a
	return a
}

// AddRepository gives a repository, "owner/name", to an installation. One that does not exist is made.
func (s *Server) AddRepository(installationID int64, fullName string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.world.installations[installationID]
	r := s.repository(fullName)
	if in == nil || r.installation == in {
		return
	}
	r.installation = in
	in.repos = append(in.repos, r)
	slices.SortFunc(in.repos, func(a, b *repository) int { return int(a.id - b.id) })
}

// repository finds or makes a repository; a new one belongs to no installation. Called under mu.
func (s *Server) repository(fullName string) *repository {
	key := strings.ToLower(fullName)
	if r, ok := s.world.repositories[key]; ok {
		return r
	}
	owner, _, _ := strings.Cut(fullName, "/")
	r := &repository{
		id: s.newID(), fullName: fullName, owner: s.account(owner, true),
		created: s.now(), workflows: map[string]int64{},
	}
	s.world.repositories[key] = r
	return r
}

// workflow is the id of a workflow in a repository. Called under mu.
func (s *Server) workflow(r *repository, name string) int64 {
	id, ok := r.workflows[name]
	if !ok {
		id = s.newID()
		r.workflows[name] = id
	}
	return id
}

// SetListLag makes runner lists show registrations and removals only after d. Reading one runner by id is exact.
func (s *Server) SetListLag(d time.Duration) { s.set(func() { s.world.listLag = d }) }

// SetIdleDelete makes GitHub delete a JIT registration that has had no job for d; its runner is told. 0 never.
func (s *Server) SetIdleDelete(d time.Duration) { s.set(func() { s.world.idleDelete = d }) }

// SetLostAfter sets how long a runner may be silent before its session ends and its job fails. The default is 2 minutes.
func (s *Server) SetLostAfter(d time.Duration) { s.set(func() { s.world.lostAfter = d }) }

// DeprecateRunners makes GitHub refuse every runner as too old, as it does a month after a release.
func (s *Server) DeprecateRunners(on bool) { s.set(func() { s.world.deprecated = on }) }
