package problems

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Problem is one that stands now. What it does not say itself, its kind says.
type Problem struct {
	Code    Code      `json:"code"`
	Subject string    `json:"subject,omitempty"` // ID of what it is about; empty for the fleet
	Title   string    `json:"title"`
	Why     string    `json:"why"`
	Fix     string    `json:"fix"`
	Since   time.Time `json:"since"`
}

type key struct {
	code    Code
	subject string
}

// Set is what stands now. It is safe for concurrent use.
type Set struct {
	now     func() time.Time
	changed func(p Problem, stands bool)

	mu  sync.Mutex
	all map[key]Problem
}

// NewSet returns an empty set. changed, unless it is nil, is told of each problem that is new, says something else, or is gone. It
// must not wait for anything, and must not change the set.
func NewSet(now func() time.Time, changed func(p Problem, stands bool)) *Set {
	if changed == nil {
		changed = func(Problem, bool) {}
	}
	return &Set{now: now, changed: changed, all: map[key]Problem{}}
}

// Raise says that a problem stands. The subject is the ID of what it is about. A problem that stands already keeps its Since.
func (s *Set) Raise(subject string, p Problem) {
	k := p.Code.Kind()
	if k.Code == "" {
		return // the zero Code names nothing that anybody could look up
	}
	p.Subject = subject
	p.Title, p.Why, p.Fix = cmp.Or(p.Title, k.Title), cmp.Or(p.Why, k.Why), cmp.Or(p.Fix, k.Fix)
	if s.put(&p) {
		s.changed(p, true)
	}
}

func (s *Set) put(p *Problem) (news bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := key{p.Code, p.Subject}
	old, stood := s.all[at]
	if p.Since = old.Since; !stood {
		p.Since = s.now()
	}
	s.all[at] = *p
	return old != *p
}

// Clear says that a problem does not stand, whether it did or not.
func (s *Set) Clear(code Code, subject string) {
	if p, stood := s.take(key{code, subject}); stood {
		s.changed(p, false)
	}
}

func (s *Set) take(k key) (Problem, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, stood := s.all[k]
	delete(s.all, k)
	return p, stood
}

// Is raises a problem while it stands, and clears it when it does not.
func (s *Set) Is(code Code, subject string, stands bool, words func() Problem) {
	if !stands {
		s.Clear(code, subject)
		return
	}
	p := words()
	p.Code = code
	s.Raise(subject, p)
}

// Subjects are those of which a problem of a code stands.
func (s *Set) Subjects(code Code) (out []string) {
	for _, p := range s.List() {
		if p.Code == code {
			out = append(out, p.Subject)
		}
	}
	return out
}

// Stands says whether a problem stands.
func (s *Set) Stands(code Code, subject string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, stands := s.all[key{code, subject}]
	return stands
}

// List returns what stands now, by code and subject.
func (s *Set) List() []Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Problem, 0, len(s.all))
	for _, p := range s.all {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Code.String(), b.Code.String()), cmp.Compare(a.Subject, b.Subject))
	})
	return out
}
