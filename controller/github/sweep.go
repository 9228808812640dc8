package github

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
)

const (
	sweepWidth    = 4  // calls of one sweep in flight; GitHub minds a hundred
	sweepPatience = 5  // failed repositories or runs after which a sweep gives up
	spotRuns      = 20 // runs in progress that a spot sweep looks into
)

// Spotter is the cheap half of a poll; *Client implements it beside API.
type Spotter interface {
	// SpotJobs finds the jobs of every queued run, and of the 20 runs in progress not looked into for longest.
	SpotJobs(ctx context.Context) ([]JobState, error)
}

// Sweep polls one installation as deep as ShouldPoll decided. As with ActiveJobs, jobs returned beside an error are true
// as far as they go; only an answer without an error says anything about the jobs that are not in it.
func Sweep(ctx context.Context, api API, depth PollDepth) ([]JobState, error) {
	if depth == PollNone {
		return nil, nil
	}
	if s, ok := api.(Spotter); ok && depth == PollSpot {
		return s.SpotJobs(ctx)
	}
	return api.ActiveJobs(ctx)
}

// ActiveJobs lists the jobs that are queued, waiting or in progress in every repository of the installation. It costs one
// call per 100 repositories, three per repository and one per active run; lists that have not changed cost no quota.
// One broken repository does not hide the others: what was found is returned beside the error. A request to wait ends
// the sweep at once.
func (c *Client) ActiveJobs(ctx context.Context) ([]JobState, error) {
	// Forward along a run's life, so that one that moves on in between is met at least once.
	return c.sweep(ctx, []string{statusQueued, statusWaiting, statusInProgress}, 0)
}

// SpotJobs implements Spotter, at two calls per repository.
func (c *Client) SpotJobs(ctx context.Context) ([]JobState, error) {
	return c.sweep(ctx, []string{statusQueued, statusInProgress}, spotRuns)
}

// sweep looks into every run of the statuses; of those in progress into at most limit, when that is positive.
func (c *Client) sweep(ctx context.Context, statuses []string, limit int) ([]JobState, error) {
	repositories, err := c.repositories(ctx)
	if err != nil {
		return nil, err
	}
	s := newSweep(ctx)
	for _, repository := range repositories {
		s.each(func(ctx context.Context) error {
			for _, status := range statuses {
				runs, err := c.runs(ctx, repository, status)
				if err != nil {
					return err
				}
				s.addRuns(status, runs)
			}
			return nil
		})
	}
	s.wait()

	inProgress := c.seen.pick(s.inProgress, limit)
	for _, r := range slices.Concat(s.early, inProgress) {
		s.each(func(ctx context.Context) error {
			jobs, err := c.jobs(ctx, r)
			if err == nil {
				s.addJobs(jobs)
			}
			return err
		})
	}
	s.wait()
	return s.result()
}

// sweeping gathers one sweep's findings from its calls.
type sweeping struct {
	parent context.Context
	group  *errgroup.Group
	ctx    context.Context

	mu         sync.Mutex
	known      map[int64]bool // runs
	early      []run          // not in progress yet
	inProgress []run
	jobs       map[int64]JobState
	errs       []error
	over       bool
}

func newSweep(ctx context.Context) *sweeping {
	s := &sweeping{parent: ctx, known: map[int64]bool{}, jobs: map[int64]JobState{}}
	s.begin()
	return s
}

func (s *sweeping) begin() {
	s.group, s.ctx = errgroup.WithContext(s.parent)
	s.group.SetLimit(sweepWidth)
}

// each runs find beside others, unless the sweep is over.
func (s *sweeping) each(find func(context.Context) error) {
	s.group.Go(func() error {
		if s.ended() {
			return nil
		}
		err := find(s.ctx)
		if err == nil || errors.Is(err, ErrNotFound) { // a repository or run may go while we look
			return nil
		}
		return s.failed(err)
	})
}

func (s *sweeping) wait() {
	_ = s.group.Wait() // the errors are in s.errs
	s.begin()
}

func (s *sweeping) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over || s.parent.Err() != nil
}

// failed notes an error and returns it if it ends the sweep, which cancels the calls in flight.
func (s *sweeping) failed(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return nil // a consequence of the end, not a cause
	}
	s.errs = append(s.errs, err)
	var limit *LimitError
	if errors.As(err, &limit) || len(s.errs) >= sweepPatience || s.parent.Err() != nil {
		s.over = true
		return err
	}
	return nil
}

func (s *sweeping) addRuns(status string, runs []run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range runs {
		if s.known[r.id] {
			continue
		}
		s.known[r.id] = true
		if status == statusInProgress {
			s.inProgress = append(s.inProgress, r)
		} else {
			s.early = append(s.early, r)
		}
	}
}

func (s *sweeping) addJobs(jobs []JobState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range jobs {
		// Pages shift while a run moves, so a job can be listed twice: in progress is the later word.
		if had, ok := s.jobs[j.GitHubID]; !ok || had.Status != statusInProgress {
			s.jobs[j.GitHubID] = j
		}
	}
}

func (s *sweeping) result() ([]JobState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []JobState
	for _, j := range s.jobs {
		found = append(found, j)
	}
	slices.SortFunc(found, func(a, b JobState) int { return cmp.Compare(a.GitHubID, b.GitHubID) })
	if err := s.parent.Err(); err != nil && len(s.errs) == 0 {
		return found, err
	}
	return found, errors.Join(s.errs...)
}

// spotMemory takes runs in progress in turns, least recently looked into first.
type spotMemory struct {
	mu     sync.Mutex
	sweeps int64
	looked map[int64]int64 // run to sweep
}

func (m *spotMemory) pick(runs []run, limit int) []run {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweeps++
	picked := slices.Clone(runs)
	slices.SortFunc(picked, func(a, b run) int {
		return cmp.Or(cmp.Compare(m.looked[a.id], m.looked[b.id]), cmp.Compare(b.id, a.id))
	})
	if limit > 0 && len(picked) > limit {
		picked = picked[:limit]
	}
	looked := make(map[int64]int64, len(runs))
	for _, r := range runs {
		if at, ok := m.looked[r.id]; ok {
			looked[r.id] = at
		}
	}
	for _, r := range picked {
		looked[r.id] = m.sweeps
	}
	m.looked = looked
	return picked
}
