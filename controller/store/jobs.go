package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const jobColumns columns = `id, installation_id, github_id, run_id, run_attempt, repository, workflow, name, labels,
	state, conclusion, runner_id, runner_name, fleet_fault, html_url, queued_at, seen_at, started_at, completed_at, checked_at`

const (
	selectJob = "SELECT " + string(jobColumns) + " FROM jobs"
	// selectKnownJob finds a job by its number at the GitHub of an installation: an organisation that two Apps serve tells of
	// each job twice, and it is one job. The installation that told of it first has it.
	selectKnownJob = selectJob + " WHERE github_id = ? AND installation_id IN (" + sameGitHub + ") ORDER BY seen_at, id LIMIT 1"
	// sameGitHub are the installations at the GitHub of one.
	sameGitHub = "SELECT id FROM installations WHERE base_url = (SELECT base_url FROM installations WHERE id = ?)"
)

func (j *Job) values() []any {
	return []any{j.ID, j.InstallationID, j.GitHubID, j.RunID, j.RunAttempt, j.Repository, j.Workflow, j.Name, jsonList(j.Labels),
		string(j.State), j.Conclusion, j.RunnerID, j.RunnerName, j.FleetFault, j.HTMLURL,
		micros(j.QueuedAt), micros(j.SeenAt), micros(j.StartedAt), micros(j.CompletedAt), micros(j.CheckedAt)}
}

func scanJob(row scanner) (j Job, err error) {
	err = row.Scan(&j.ID, &j.InstallationID, &j.GitHubID, &j.RunID, &j.RunAttempt, &j.Repository, &j.Workflow, &j.Name, intoJSON(&j.Labels),
		&j.State, &j.Conclusion, &j.RunnerID, &j.RunnerName, &j.FleetFault, &j.HTMLURL,
		intoTime(&j.QueuedAt), intoTime(&j.SeenAt), intoTime(&j.StartedAt), intoTime(&j.CompletedAt), intoTime(&j.CheckedAt))
	return j, err
}

// jobRank orders the states of a job: it never goes to a lower rank. Queued and waiting share
// one, so the two alternate.
func jobRank(s JobState) int {
	switch s {
	case JobWaiting, JobQueued:
		return 1
	case JobInProgress:
		return 2
	case JobCompleted:
		return 3
	}
	return 0
}

// UpsertJob applies what GitHub says of a job. A job never moves backwards: waiting and queued
// rank alike and alternate, in_progress is above them, completed above all and keeps its first
// conclusion. Fields fill in and are never blanked. The same job heard of twice, through any
// number of hooks and polls and installations at the same GitHub, is one row, of the installation
// that told of it first; one without any pool leaves it to the next that has some. A re-run is a
// new GitHub job and so a new row.
func (s *Store) UpsertJob(ctx context.Context, u JobUpdate) (JobChange, error) {
	now := s.now()
	c, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (JobChange, error) { return upsertJob(ctx, t, u, now) })
	return c, errorf(err, "record job %d", u.GitHubID)
}

func upsertJob(ctx context.Context, t *tx, u JobUpdate, now time.Time) (JobChange, error) {
	known, err := all(ctx, t, scanJob, selectKnownJob, u.GitHubID, u.InstallationID)
	if err != nil {
		return JobChange{}, err
	}
	if u.State != "" && jobRank(u.State) == 0 {
		return JobChange{}, fmt.Errorf("%.32q is not a state of a job", string(u.State))
	}
	if len(known) == 0 {
		if u.State == "" || u.GitHubID == 0 {
			return JobChange{}, errors.New("a new job needs a state and GitHub's ID")
		}
		j := Job{ID: NewID(idJob), InstallationID: u.InstallationID, GitHubID: u.GitHubID, SeenAt: now, QueuedAt: now}
		j.apply(u, now)
		_, err := exec(ctx, t, jobColumns.insert("jobs"), j.values()...)
		return JobChange{Job: j, Changed: true}, err
	}
	j := known[0]
	c := JobChange{Previous: j.State}
	if j.InstallationID != u.InstallationID {
		if err := j.passOn(ctx, t, u.InstallationID); err != nil {
			return c, err
		}
	}
	j.apply(u, now)
	c.Job, c.Changed = j, j.State != c.Previous
	return c, execOne(ctx, t, jobColumns.update("jobs"), append(j.values(), j.ID)...)
}

// passOn gives a job that nobody runs yet to another installation, if its own has no pool and that
// one has: an App that is installed and serves nothing must not keep its jobs from one that does.
func (j *Job) passOn(ctx context.Context, t *tx, installationID string) error {
	if j.RunnerID != "" || jobRank(j.State) > jobRank(JobQueued) {
		return nil
	}
	const pool = "SELECT id FROM pools WHERE installation_id = ? LIMIT 1"
	if served, err := exists(ctx, t, pool, j.InstallationID); err != nil || served {
		return err
	}
	served, err := exists(ctx, t, pool, installationID)
	if err == nil && served {
		j.InstallationID = installationID
	}
	return err
}

// apply takes over what u says, in such a way that any order and repetition of a job's deliveries
// up to its completion ends in the same row.
func (j *Job) apply(u JobUpdate, now time.Time) {
	if u.State != "" && jobRank(u.State) >= jobRank(j.State) {
		j.State = u.State
		j.CheckedAt = now // what is below the stored state is old news and confirms nothing
	}
	fill(&j.RunID, u.RunID)
	fill(&j.RunAttempt, u.RunAttempt)
	fill(&j.Repository, u.Repository)
	fill(&j.Workflow, u.Workflow)
	fill(&j.Name, u.Name)
	fill(&j.RunnerName, u.RunnerName)
	fill(&j.HTMLURL, u.HTMLURL)
	if len(j.Labels) == 0 && len(u.Labels) > 0 {
		j.Labels = u.Labels
	}
	// QueuedAt is our own word until GitHub has given its own.
	if at := stamp(u.QueuedAt); !at.IsZero() && (j.QueuedAt.Equal(j.SeenAt) || at.Before(j.QueuedAt)) {
		j.QueuedAt = at
	}
	// GitHub sends a "started" with queued jobs too, which means nothing.
	if at := stamp(u.StartedAt); !at.IsZero() && jobRank(u.State) >= jobRank(JobInProgress) && (j.StartedAt.IsZero() || at.Before(j.StartedAt)) {
		j.StartedAt = at
	}
	if u.State == JobCompleted {
		fill(&j.Conclusion, u.Conclusion)
		fill(&j.CompletedAt, stamp(u.CompletedAt))
		fill(&j.CompletedAt, now)
	}
}

// fill sets an empty field.
func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Job returns one job. ErrNotFound when there is none.
func (s *Store) Job(ctx context.Context, id string) (Job, error) {
	j, err := one(ctx, s.readers, scanJob, selectJob+" WHERE id = ?", id)
	return j, errorf(err, "read job %s", id)
}

// JobByGitHubID returns the job of that number at the installation's GitHub, whichever installation
// told of it. ErrNotFound when there is none.
func (s *Store) JobByGitHubID(ctx context.Context, installationID string, githubID int64) (Job, error) {
	j, err := one(ctx, s.readers, scanJob, selectKnownJob, githubID, installationID)
	return j, errorf(err, "read job %d", githubID)
}

// JobFilter selects jobs. Zero fields select all.
type JobFilter struct {
	States        []JobState
	Installation  string
	GitHubOf      string    // an installation: the jobs of every installation at its GitHub
	CheckedBefore time.Time // only jobs whose CheckedAt is before
	Limit         int
}

// Jobs returns jobs, oldest QueuedAt first, then by GitHubID.
func (s *Store) Jobs(ctx context.Context, f JobFilter) ([]Job, error) {
	var w where
	if len(f.States) > 0 {
		w.in("state", anys(f.States))
		unfinished := true
		for _, st := range f.States {
			unfinished = unfinished && st != JobCompleted
		}
		if unfinished {
			w.add("state <> 'completed'") // lets the index of unfinished jobs serve
		}
	}
	if f.Installation != "" {
		w.add("installation_id = ?", f.Installation)
	}
	if f.GitHubOf != "" {
		w.add("installation_id IN ("+sameGitHub+")", f.GitHubOf)
	}
	if !f.CheckedBefore.IsZero() {
		w.add("checked_at < ?", micros(f.CheckedBefore))
	}
	list, err := all(ctx, s.readers, scanJob, selectJob+w.String()+" ORDER BY queued_at, github_id"+limit(f.Limit), w.args...)
	return list, errorf(err, "list jobs")
}

// SetJobFleetFault records why the fleet, not the workflow, failed a job.
func (s *Store) SetJobFleetFault(ctx context.Context, id, why string) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		return execOne(ctx, t, "UPDATE jobs SET fleet_fault = ? WHERE id = ?", why, id)
	})
	return errorf(err, "record the fault of job %s", id)
}
