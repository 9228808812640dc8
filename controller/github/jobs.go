package github

import (
	"context"
	"fmt"
	"time"

	gh "github.com/google/go-github/v66/github"
)

// The states of a job at GitHub that this package passes on.
const (
	statusQueued     = "queued"
	statusWaiting    = "waiting"
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
)

// jobStatus folds GitHub's words into the four of JobState.Status. A requested or pending job (concurrency groups) cannot
// run yet: it is waiting. An unknown word is "", and the job is left alone.
func jobStatus(s string) string {
	switch s {
	case statusQueued, statusWaiting, statusInProgress, statusCompleted:
		return s
	case "requested", "pending":
		return statusWaiting
	}
	return ""
}

// settle removes what GitHub fills in before it is true: a queued job's started_at is when it was queued, and its runner
// nobody's.
func settle(j JobState) JobState {
	if j.Status == statusQueued || j.Status == statusWaiting {
		j.StartedAt, j.RunnerID, j.RunnerName = time.Time{}, 0, ""
	}
	if j.Status != statusCompleted {
		j.CompletedAt, j.Conclusion = time.Time{}, ""
	}
	return j
}

func jobOf(repository, workflow string, j *gh.WorkflowJob) JobState {
	if name := j.GetWorkflowName(); name != "" {
		workflow = name
	}
	return settle(JobState{
		GitHubID:    j.GetID(),
		RunID:       j.GetRunID(),
		RunAttempt:  j.GetRunAttempt(),
		Repository:  repository,
		Workflow:    workflow,
		Name:        j.GetName(),
		Labels:      j.Labels,
		Status:      jobStatus(j.GetStatus()),
		Conclusion:  j.GetConclusion(),
		RunnerID:    j.GetRunnerID(),
		RunnerName:  j.GetRunnerName(),
		HTMLURL:     j.GetHTMLURL(),
		CreatedAt:   j.GetCreatedAt().Time,
		StartedAt:   j.GetStartedAt().Time,
		CompletedAt: j.GetCompletedAt().Time,
	})
}

// Job reads one job. ErrNotFound says that GitHub has no such job, or does not show its repository to this App.
func (c *Client) Job(ctx context.Context, repository string, id int64) (JobState, error) {
	owner, name, err := splitRepository(repository)
	if err != nil {
		return JobState{}, fmt.Errorf("cannot read job %d: %w", id, err)
	}
	var got *gh.WorkflowJob
	op := operation{what: fmt.Sprintf("read job %d of %s", id, repository), quota: quotaCore}
	err = c.call(ctx, op, func(ctx context.Context) (err error) {
		got, _, err = c.gh.Actions.GetWorkflowJobByID(ctx, owner, name, id)
		return err
	})
	if err != nil {
		return JobState{}, err
	}
	job := jobOf(repository, "", got)
	if job.GitHubID != id || job.Status == "" {
		return JobState{}, fmt.Errorf("cannot read job %d of %s: GitHub's answer is of job %d in state %q", id, repository, job.GitHubID, scrub(got.GetStatus(), ""))
	}
	return job, nil
}

// repositories lists what the installation covers, without archived and disabled ones: nothing runs there.
func (c *Client) repositories(ctx context.Context) ([]string, error) {
	var all []string
	known := map[string]bool{}
	err := pages(func(page gh.ListOptions) (items, total int, resp *gh.Response, err error) {
		var got *gh.ListRepositories
		op := operation{what: "list the installation's repositories", quota: quotaCore, cached: true}
		err = c.call(ctx, op, func(ctx context.Context) (err error) {
			got, resp, err = c.gh.Apps.ListRepos(ctx, &page)
			return err
		})
		if err != nil {
			return 0, 0, nil, err
		}
		if got == nil {
			return 0, 0, nil, nil
		}
		for _, r := range got.Repositories {
			name := r.GetFullName()
			if _, _, err := splitRepository(name); err != nil || known[name] || r.GetArchived() || r.GetDisabled() {
				continue
			}
			known[name] = true
			all = append(all, name)
		}
		return len(got.Repositories), got.GetTotalCount(), resp, nil
	})
	return all, err
}

// run is a workflow run that may have jobs for us.
type run struct {
	repository, workflow string
	id                   int64
}

// runs lists a repository's runs of one status.
func (c *Client) runs(ctx context.Context, repository, status string) ([]run, error) {
	owner, name, err := splitRepository(repository)
	if err != nil {
		return nil, err
	}
	var all []run
	err = pages(func(page gh.ListOptions) (items, total int, resp *gh.Response, err error) {
		opts := &gh.ListWorkflowRunsOptions{Status: status, ExcludePullRequests: true, ListOptions: page}
		var got *gh.WorkflowRuns
		op := operation{what: fmt.Sprintf("list %s runs of %s", status, repository), quota: quotaCore, cached: true}
		err = c.call(ctx, op, func(ctx context.Context) (err error) {
			got, resp, err = c.gh.Actions.ListRepositoryWorkflowRuns(ctx, owner, name, opts)
			return err
		})
		if err != nil {
			return 0, 0, nil, err
		}
		for _, r := range got.WorkflowRuns {
			if r.GetID() > 0 {
				all = append(all, run{repository: repository, workflow: r.GetName(), id: r.GetID()})
			}
		}
		return len(got.WorkflowRuns), got.GetTotalCount(), resp, nil
	})
	return all, err
}

// jobs lists the jobs of a run's latest attempt that are not over.
func (c *Client) jobs(ctx context.Context, r run) ([]JobState, error) {
	owner, name, err := splitRepository(r.repository)
	if err != nil {
		return nil, err
	}
	var all []JobState
	err = pages(func(page gh.ListOptions) (items, total int, resp *gh.Response, err error) {
		opts := &gh.ListWorkflowJobsOptions{Filter: "latest", ListOptions: page}
		var got *gh.Jobs
		op := operation{what: fmt.Sprintf("list the jobs of run %d of %s", r.id, r.repository), quota: quotaCore, cached: true}
		err = c.call(ctx, op, func(ctx context.Context) (err error) {
			got, resp, err = c.gh.Actions.ListWorkflowJobs(ctx, owner, name, r.id, opts)
			return err
		})
		if err != nil {
			return 0, 0, nil, err
		}
		for _, j := range got.Jobs {
			job := jobOf(r.repository, r.workflow, j)
			if job.GitHubID > 0 && job.Status != "" && job.Status != statusCompleted {
				all = append(all, job)
			}
		}
		return len(got.Jobs), got.GetTotalCount(), resp, nil
	})
	return all, err
}
