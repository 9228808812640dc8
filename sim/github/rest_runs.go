package github

import (
	"net/http"
	"slices"
)

const docRuns = "https://docs.github.com/rest/actions/workflow-runs"

func (s *Server) listRuns(c *call) answer {
	_, repo, refused := s.scope(c)
	if refused != nil {
		return *refused
	}
	want := c.r.URL.Query().Get("status")
	var all []*run
	for _, r := range s.world.runs {
		status, conclusion := r.state()
		if r.repo == repo && (want == "" || want == status || want == conclusion) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *run) int { return int(b.id - a.id) }) // newest first
	part, h := page(c, s.base+restRoot, all)
	out := []map[string]any{}
	for _, r := range part {
		out = append(out, s.runJSON(r))
	}
	return answer{http.StatusOK, map[string]any{"total_count": len(all), "workflow_runs": out}, h}
}

// runOf finds the path's run in the path's repository.
func (s *Server) runOf(c *call) (*run, *answer) {
	_, repo, refused := s.scope(c)
	if refused != nil {
		return nil, refused
	}
	r := s.world.runs[pathID(c, "run_id")]
	if r == nil || r.repo != repo {
		a := notFound()
		return nil, &a
	}
	return r, nil
}

func (s *Server) getRun(c *call) answer {
	r, refused := s.runOf(c)
	if refused != nil {
		return *refused
	}
	return answer{status: http.StatusOK, body: s.runJSON(r)}
}

func (s *Server) listRunJobs(c *call) answer {
	r, refused := s.runOf(c)
	if refused != nil {
		return *refused
	}
	all := r.latest()
	if c.r.URL.Query().Get("filter") == "all" {
		all = r.jobs
	}
	part, h := page(c, s.base+restRoot, all)
	out := []map[string]any{}
	for _, j := range part {
		out = append(out, s.jobJSON(j))
	}
	return answer{http.StatusOK, map[string]any{"total_count": len(all), "jobs": out}, h}
}

func (s *Server) getJob(c *call) answer {
	_, repo, refused := s.scope(c)
	if refused != nil {
		return *refused
	}
	j := s.world.jobs[pathID(c, "job_id")]
	if j == nil || j.run.repo != repo {
		return notFound()
	}
	return answer{status: http.StatusOK, body: s.jobJSON(j)}
}

func (s *Server) cancelRun(c *call) answer {
	r, refused := s.runOf(c)
	if refused != nil {
		return *refused
	}
	if status, _ := r.state(); status == StatusCompleted {
		return problem(http.StatusConflict, "Cannot cancel a workflow run that is completed.", docRuns)
	}
	for _, j := range r.latest() {
		s.cancelJob(j)
	}
	return answer{status: http.StatusAccepted, body: map[string]any{}}
}

func (s *Server) rerun(c *call) answer {
	r, refused := s.runOf(c)
	if refused != nil {
		return *refused
	}
	return s.again(c, r, func(*job) bool { return true })
}

func (s *Server) rerunFailed(c *call) answer {
	r, refused := s.runOf(c)
	if refused != nil {
		return *refused
	}
	return s.again(c, r, (*job).failed)
}

// rerunJob runs one job again. GitHub takes those that depend on it along; here no job depends on another.
func (s *Server) rerunJob(c *call) answer {
	_, repo, refused := s.scope(c)
	if refused != nil {
		return *refused
	}
	j := s.world.jobs[pathID(c, "job_id")]
	if j == nil || j.run.repo != repo {
		return notFound()
	}
	if !slices.Contains(j.run.latest(), j) {
		return problem(http.StatusForbidden, "Unable to retry this job because it is not part of the latest attempt of its workflow run", docRuns)
	}
	return s.again(c, j.run, func(other *job) bool { return other == j })
}

func (j *job) failed() bool { return j.conclusion != ConclusionSuccess }

// again starts the next attempt of a run with new jobs for those that are picked. For the others GitHub says
// `completed` once more, under their old ids.
func (s *Server) again(c *call, r *run, pick func(*job) bool) answer {
	if status, _ := r.state(); status != StatusCompleted {
		return problem(http.StatusForbidden, "This workflow is already running", docRuns)
	}
	old := r.latest()
	r.attempt++
	r.started, r.updated = c.now, c.now
	for _, j := range old {
		if !pick(j) {
			s.deliverJob(j, StatusCompleted)
			j.attempt = r.attempt
			continue
		}
		var steps []Step
		for _, st := range j.steps {
			steps = append(steps, st.Step)
		}
		s.moveJob(s.newJob(r, j.name, j.labels, steps), StatusQueued, "")
	}
	s.assign()
	return answer{status: http.StatusCreated, body: map[string]any{}}
}
