package github

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

var (
	// ErrMalformed marks a verified delivery that is not what GitHub documents: answer 400.
	ErrMalformed = errors.New("the payload is malformed")
	// ErrIgnored marks a well-formed delivery that changes nothing: answer 2xx.
	ErrIgnored = errors.New("the delivery is ignored")
)

const (
	maxLabelBytes = 256
	maxTextBytes  = 1024
	maxURLBytes   = 2048
)

// WorkflowJobEvent is a workflow_job delivery.
type WorkflowJobEvent struct {
	Action         string // queued, waiting, in_progress, completed
	Job            JobState
	Owner          string // as in the repository's full name; the delivery is credited to the installation of this account
	Organization   string // empty for a user's repository
	InstallationID int64  // the App's, 0 when a plain organisation or repository webhook sent it
}

// OwnedBy says whether the delivery is credited to the installation of account, whichever secret verified it.
func (e WorkflowJobEvent) OwnedBy(account string) bool {
	return account != "" && strings.EqualFold(e.Owner, account)
}

// payload is what we read of GitHub's workflow_job; everything else is passed over.
type payload struct {
	Action string `json:"action"`
	Job    *struct {
		ID          int64    `json:"id"`
		RunID       int64    `json:"run_id"`
		RunAttempt  int64    `json:"run_attempt"`
		Workflow    string   `json:"workflow_name"`
		Name        string   `json:"name"`
		Labels      []string `json:"labels"`
		Status      string   `json:"status"`
		Conclusion  string   `json:"conclusion"`
		RunnerID    int64    `json:"runner_id"`
		RunnerName  string   `json:"runner_name"`
		HTMLURL     string   `json:"html_url"`
		CreatedAt   *moment  `json:"created_at"`
		StartedAt   *moment  `json:"started_at"`
		CompletedAt *moment  `json:"completed_at"`
	} `json:"workflow_job"`
	Repository *struct {
		FullName string `json:"full_name"`
	} `json:"repository"`
	Organization *struct {
		Login string `json:"login"`
	} `json:"organization"`
	Installation *struct {
		ID int64 `json:"id"`
	} `json:"installation"`
}

// moment is a time that may be empty.
type moment time.Time

func (m *moment) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s == "" {
		return nil
	}
	t, err := time.Parse(time.RFC3339, s)
	*m = moment(t)
	return err
}

func (m *moment) time() time.Time {
	if m == nil {
		return time.Time{}
	}
	return time.Time(*m)
}

// ParseWorkflowJob reads the payload of a verified workflow_job delivery. Unknown fields are passed over; a missing or
// impossible one that decisions rest on is ErrMalformed; an action we do not know is ErrIgnored.
func ParseWorkflowJob(body []byte) (WorkflowJobEvent, error) {
	var p payload
	if err := json.Unmarshal(body, &p); err != nil {
		return WorkflowJobEvent{}, malformed("it is not a workflow_job in JSON: %s", scrub(err.Error(), ""))
	}
	if p.Job == nil || p.Repository == nil {
		return WorkflowJobEvent{}, malformed("it has no workflow_job or no repository")
	}
	owner, _, err := splitRepository(p.Repository.FullName)
	switch {
	case err != nil:
		return WorkflowJobEvent{}, malformed("%s", err)
	case p.Job.ID <= 0 || p.Job.RunID <= 0 || p.Job.RunAttempt < 0 || p.Job.RunnerID < 0:
		return WorkflowJobEvent{}, malformed("the job has no valid id, run_id, run_attempt or runner_id")
	}
	labels, err := cleanLabels(p.Job.Labels)
	if err != nil {
		return WorkflowJobEvent{}, err
	}
	status := statusOf(p.Action, p.Job.Status)
	if status == "" {
		return WorkflowJobEvent{}, fmt.Errorf("cannot use the webhook: %w: the action %q is not one of ours", ErrIgnored, scrub(p.Action, ""))
	}
	e := WorkflowJobEvent{
		Action: p.Action,
		Owner:  owner,
		Job: settle(JobState{
			GitHubID: p.Job.ID, RunID: p.Job.RunID, RunAttempt: p.Job.RunAttempt,
			Repository: p.Repository.FullName,
			Workflow:   clip(p.Job.Workflow, maxTextBytes), Name: clip(p.Job.Name, maxTextBytes),
			Labels: labels, Status: status, Conclusion: clip(p.Job.Conclusion, maxTextBytes),
			RunnerID: p.Job.RunnerID, RunnerName: clip(p.Job.RunnerName, maxTextBytes),
			HTMLURL:   webAddress(p.Job.HTMLURL),
			CreatedAt: p.Job.CreatedAt.time(), StartedAt: p.Job.StartedAt.time(), CompletedAt: p.Job.CompletedAt.time(),
		}),
	}
	if p.Organization != nil {
		e.Organization = clip(p.Organization.Login, maxTextBytes)
	}
	if p.Installation != nil {
		e.InstallationID = p.Installation.ID
	}
	return e, nil
}

// statusOf takes the action's word for what happened: the status beside it may lag (in_progress with status queued is
// documented). Only a queued action may say that the job waits for a gate.
func statusOf(action, status string) string {
	switch action {
	case statusQueued:
		if jobStatus(status) == statusWaiting {
			return statusWaiting
		}
		return statusQueued
	case statusWaiting, statusInProgress, statusCompleted:
		return action
	}
	return ""
}

func cleanLabels(in []string) ([]string, error) {
	if len(in) > maxLabels {
		return nil, malformed("the job has %d labels", len(in))
	}
	var out []string
	for _, l := range in {
		switch l = strings.TrimSpace(l); {
		case len(l) > maxLabelBytes:
			return nil, malformed("a label is longer than %d bytes", maxLabelBytes)
		case l != "":
			out = append(out, l)
		}
	}
	return out, nil
}

// webAddress keeps a link only if a browser may be sent there.
func webAddress(s string) string {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil || len(s) > maxURLBytes {
		return ""
	}
	return s
}

func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("cannot use the webhook: %w: "+format, append([]any{ErrMalformed}, args...)...)
}
