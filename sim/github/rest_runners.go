package github

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const docRunners = "https://docs.github.com/rest/actions/self-hosted-runners"

// maxName is the longest name that a runner may have.
const maxName = 64

func invalid(format string, args ...any) answer {
	return problem(http.StatusUnprocessableEntity, fmt.Sprintf(format, args...), docRunners)
}

func (s *Server) generateJIT(c *call) answer {
	org, repo, refused := s.scope(c)
	if refused != nil {
		return *refused
	}
	var in struct {
		Name       *string  `json:"name"`
		Group      *int64   `json:"runner_group_id"`
		Labels     []string `json:"labels"`
		WorkFolder string   `json:"work_folder"`
	}
	if err := json.Unmarshal(c.body, &in); err != nil {
		return problem(http.StatusBadRequest, "Problems parsing JSON", docRunners)
	}
	var missing []string
	if in.Name == nil {
		missing = append(missing, `"name"`)
	}
	if in.Group == nil {
		missing = append(missing, `"runner_group_id"`)
	}
	if in.Labels == nil {
		missing = append(missing, `"labels"`)
	}
	switch {
	case len(missing) == 1:
		return invalid("Invalid request.\n\n%s wasn't supplied.", missing[0])
	case len(missing) > 1:
		return invalid("Invalid request.\n\n%s weren't supplied.", strings.Join(missing, ", "))
	case len(in.Labels) == 0 || len(in.Labels) > 100:
		return invalid("Invalid request.\n\nFor 'items', %d is not a valid number of labels: 1 to 100 are.", len(in.Labels))
	case strings.TrimSpace(*in.Name) == "" || len(*in.Name) > maxName || strings.ContainsAny(*in.Name, "\"/\\[]:|<>+=;,?*\n\r\t"):
		return invalid("Name %q is not valid", *in.Name)
	case slices.ContainsFunc(in.Labels, func(l string) bool { return strings.TrimSpace(l) == "" || len(l) > 256 }):
		return invalid("Labels contain an invalid label")
	case *in.Group != defaultGroup:
		return notFound()
	}
	if s.runnerNamed(*in.Name, org, repo) != nil {
		return problem(http.StatusConflict, fmt.Sprintf("Already exists - A runner with the name %s already exists.", *in.Name), docRunners)
	}
	if in.WorkFolder == "" {
		in.WorkFolder = "_work"
	}
	r := s.register(*in.Name, org, repo, *in.Group, in.Labels)
	blob, err := s.jitConfig(r, in.WorkFolder)
	if err != nil {
		s.unregister(r)
		return problem(http.StatusInternalServerError, err.Error(), docRunners)
	}
	return answer{status: http.StatusCreated, body: map[string]any{"runner": r.json(), "encoded_jit_config": blob}}
}

func (s *Server) registrationToken(c *call) answer {
	if _, _, refused := s.scope(c); refused != nil {
		return *refused
	}
	s.world.regTokens++
	return answer{status: http.StatusCreated, body: map[string]any{"token": s.token("A", 28), "expires_at": stamp(c.now.Add(time.Hour))}}
}

// json is a runner as the API shows it. The operating system is unknown until it has connected.
func (r *runner) json() map[string]any {
	status, os := "offline", "unknown"
	if r.session != nil {
		status = "online"
	}
	if !r.online.IsZero() {
		os = "Linux"
	}
	labels := []map[string]any{}
	for i, l := range r.labels {
		kind := "custom"
		if i < len(impliedLabels) {
			kind = "read-only"
		}
		labels = append(labels, map[string]any{"id": i + 1, "name": l, "type": kind})
	}
	var version any
	if r.version != "" {
		version = r.version
	}
	return map[string]any{
		"id": r.id, "name": r.name, "os": os, "status": status, "busy": r.job != nil, "ephemeral": r.ephemeral,
		"runner_group_id": r.group, "labels": labels, "version": version,
	}
}

// listed is what a list shows: registrations and removals reach it only after the lag.
func (s *Server) listed(c *call, org *account, repo *repository) []*runner {
	var all []*runner
	lag := s.world.listLag
	for _, r := range s.world.runners {
		if r.org == org && r.repo == repo && c.now.Sub(r.registered) >= lag {
			all = append(all, r)
		}
	}
	for _, r := range s.world.gone {
		if r.org == org && r.repo == repo && c.now.Sub(r.removed) < lag && c.now.Sub(r.registered) >= lag {
			all = append(all, r)
		}
	}
	if name := c.r.URL.Query().Get("name"); name != "" {
		all = slices.DeleteFunc(all, func(r *runner) bool { return !strings.EqualFold(r.name, name) })
	}
	slices.SortFunc(all, func(a, b *runner) int { return int(a.id - b.id) })
	return all
}

func (s *Server) listRunners(c *call) answer {
	org, repo, refused := s.scope(c)
	if refused != nil {
		return *refused
	}
	all := s.listed(c, org, repo)
	part, h := page(c, s.base+restRoot, all)
	out := []map[string]any{}
	for _, r := range part {
		out = append(out, r.json())
	}
	return answer{http.StatusOK, map[string]any{"total_count": len(all), "runners": out}, h}
}

// runnerOf finds the path's runner in the path's scope.
func (s *Server) runnerOf(c *call) (*runner, *answer) {
	org, repo, refused := s.scope(c)
	if refused != nil {
		return nil, refused
	}
	r := s.world.runners[pathID(c, "runner_id")]
	if r == nil || r.org != org || r.repo != repo {
		a := notFound()
		return nil, &a
	}
	return r, nil
}

func (s *Server) getRunner(c *call) answer {
	r, refused := s.runnerOf(c)
	if refused != nil {
		return *refused
	}
	return answer{status: http.StatusOK, body: r.json()}
}

func (s *Server) deleteRunner(c *call) answer {
	r, refused := s.runnerOf(c)
	if refused != nil {
		return *refused
	}
	if r.job != nil {
		return invalid("Bad request - Runner %q is still running a job", r.name)
	}
	s.unregister(r)
	return answer{status: http.StatusNoContent}
}
