package github

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// runnerRoot is where the runner service hangs. Its protocol is ours, in the spirit of the real one: JSON,
// bearer credential from the JIT configuration, one session per runner, a long poll for messages.
//
//	POST   {root}/sessions                {agentId, agentName, version} -> {sessionId}; 401 unknown, 403 too old, 409 active elsewhere
//	GET    {root}/sessions/{id}/message   -> 200 {messageId, messageType, body}; 202 nothing yet; 404 registration gone
//	DELETE {root}/sessions/{id}           -> 204
//	POST   {root}/jobs/{id}/acquire       -> 200 the job; 404 no longer yours
//	POST   {root}/jobs/{id}/logs          text appended to the log
//	POST   {root}/jobs/{id}/steps         {number, status, conclusion}
//	POST   {root}/jobs/{id}/finish        {result: Succeeded|Failed|Canceled}
const runnerRoot = "/_apis/runner"

// The messages a runner gets.
const (
	messageJob    = "RunnerJobRequest"
	messageCancel = "JobCancellation"
)

type session struct {
	id       string
	owner    string
	polling  int
	served   bool // has had a job
	lastSeen time.Time
	messages int64
}

// reply is what the runner service answers.
type reply struct {
	status int
	body   any
}

func (s *Server) runnerService() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(r *http.Request, rn *runner, body []byte) reply) {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" "+runnerRoot+path, func(w http.ResponseWriter, r *http.Request) {
			body, err := readAll(r)
			rep := reply{http.StatusBadRequest, message("cannot read the request")}
			if err == nil {
				rep = s.asRunner(r, body, f)
			}
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(rep.status)
			if rep.body != nil {
				_ = json.NewEncoder(w).Encode(rep.body) // the runner has gone; it will ask again
			}
		})
	}
	handle("POST /sessions", s.openSession)
	handle("DELETE /sessions/{id}", s.closeSession)
	handle("GET /sessions/{id}/message", s.nextMessage)
	handle("POST /jobs/{id}/acquire", s.withJob(s.acquireJob))
	handle("POST /jobs/{id}/logs", s.withJob(s.appendLog))
	handle("POST /jobs/{id}/steps", s.withJob(s.updateStep))
	handle("POST /jobs/{id}/finish", s.withJob(s.finishJob))
	return mux
}

func message(text string) map[string]string { return map[string]string{"message": text} }

// asRunner finds who speaks and calls f under mu.
func (s *Server) asRunner(r *http.Request, body []byte, f func(*http.Request, *runner, []byte) reply) reply {
	cred := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	s.mu.Lock()
	defer s.mu.Unlock()
	rn := s.world.credentials[cred]
	switch {
	case rn != nil && s.world.runners[rn.id] == rn:
		if rn.session != nil {
			rn.session.lastSeen = s.now()
		}
		return f(r, rn, body)
	case rn != nil && r.Method != http.MethodPost:
		return reply{http.StatusNotFound, message("The runner registration no longer exists.")}
	}
	return reply{http.StatusUnauthorized, message("The runner registration has been deleted from the server.")}
}

func (s *Server) openSession(_ *http.Request, rn *runner, body []byte) reply {
	var in struct {
		AgentID   int64  `json:"agentId"`
		AgentName string `json:"agentName"`
		Owner     string `json:"ownerName"`
		Version   string `json:"version"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return reply{http.StatusBadRequest, message("cannot parse the session: " + err.Error())}
	}
	switch {
	case s.world.deprecated:
		return reply{http.StatusForbidden, message(fmt.Sprintf("Runner version v%s is deprecated and cannot receive messages.", in.Version))}
	case rn.session != nil:
		return reply{http.StatusConflict, message("A session for this runner already exists.")}
	}
	now := s.now()
	rn.session = &session{id: s.guid(), owner: in.Owner, lastSeen: now}
	rn.version = in.Version
	if rn.online.IsZero() {
		rn.online = now
		s.physics.online++
	}
	rn.idleSince = now
	s.log.Debug("runner online", "runner", rn.name)
	s.touch()
	return reply{http.StatusOK, map[string]string{"sessionId": rn.session.id}}
}

func (s *Server) closeSession(r *http.Request, rn *runner, _ []byte) reply {
	if rn.session == nil || rn.session.id != r.PathValue("id") {
		return reply{http.StatusNotFound, message("no such session")}
	}
	s.endSession(rn)
	return reply{http.StatusNoContent, nil}
}

// endSession puts a runner offline. A job that it was offered goes back to the queue; one that it was
// running has failed, and an ephemeral registration with it. Called under mu.
func (s *Server) endSession(rn *runner) {
	rn.session = nil
	if j := rn.job; j != nil {
		if j.status == StatusInProgress {
			j.log.WriteString("The self-hosted runner lost communication with the server.\n")
			s.completeJob(j, ConclusionFailure)
		} else {
			s.freeRunner(rn)
		}
	}
	s.touch()
	s.assign()
}

// nextMessage holds the poll until there is something to say. It is called under mu and lets go of it while it waits.
func (s *Server) nextMessage(r *http.Request, rn *runner, _ []byte) reply {
	hold := time.NewTimer(s.opts.PollHold)
	defer hold.Stop()
	for first := true; ; first = false {
		ses := rn.session
		switch {
		case s.world.runners[rn.id] != rn:
			return reply{http.StatusNotFound, message("The runner registration no longer exists.")}
		case s.world.deprecated && rn.job == nil:
			return reply{http.StatusForbidden, message(fmt.Sprintf("Runner version v%s is deprecated and cannot receive messages.", rn.version))}
		case ses == nil || ses.id != r.PathValue("id"):
			return reply{http.StatusGone, message("The session has expired.")}
		}
		ses.lastSeen = s.now()
		if j := rn.job; j != nil {
			if j.status == StatusQueued {
				ses.messages++
				return reply{http.StatusOK, runnerMessage(ses.messages, messageJob, j.id)}
			}
			if !j.cancelled.IsZero() && !j.cancelTold {
				j.cancelTold = true
				ses.messages++
				return reply{http.StatusOK, runnerMessage(ses.messages, messageCancel, j.id)}
			}
		}
		ses.polling++
		if first { // whoever changes something assigns to those who wait
			s.assign()
		}
		if rn.job != nil && rn.job.status == StatusQueued {
			ses.polling--
			continue
		}
		changed := s.changed
		s.mu.Unlock()
		var done bool
		select {
		case <-changed:
		case <-hold.C:
			done = true
		case <-r.Context().Done():
			done = true
		case <-s.ctx.Done():
			done = true
		}
		s.mu.Lock()
		ses.polling--
		ses.lastSeen = s.now()
		if done && (rn.session != ses || rn.job == nil || rn.job.status != StatusQueued) {
			return reply{http.StatusAccepted, nil}
		}
	}
}

func runnerMessage(id int64, kind string, jobID int64) map[string]any {
	return map[string]any{"messageId": id, "messageType": kind, "body": map[string]any{"jobId": jobID}}
}

// withJob finds the job of the path and checks that it is the runner's.
func (s *Server) withJob(f func(r *http.Request, j *job, body []byte) reply) func(*http.Request, *runner, []byte) reply {
	return func(r *http.Request, rn *runner, body []byte) reply {
		id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
		if err != nil || rn.job == nil || rn.job.id != id {
			return reply{http.StatusNotFound, message("The job is not this runner's.")}
		}
		return f(r, rn.job, body)
	}
}

// RunnerJob is what a runner is given to run.
type RunnerJob struct {
	ID         int64    `json:"id"`
	RunID      int64    `json:"runId"`
	RunAttempt int64    `json:"runAttempt"`
	Name       string   `json:"name"`
	Workflow   string   `json:"workflow"`
	Repository string   `json:"repository"`
	SHA        string   `json:"sha"`
	Labels     []string `json:"labels"`
	Steps      []Step   `json:"steps"`
}

func (s *Server) acquireJob(_ *http.Request, j *job, _ []byte) reply {
	if j.status == StatusQueued {
		j.runner.session.served, j.runner.lastJob = true, j.id
		s.moveJob(j, StatusInProgress, "")
	}
	out := RunnerJob{
		ID: j.id, RunID: j.run.id, RunAttempt: j.attempt, Name: j.name, Workflow: j.run.workflow,
		Repository: j.run.repo.fullName, SHA: j.run.sha, Labels: j.labels,
	}
	for _, st := range j.steps {
		out.Steps = append(out.Steps, st.Step)
	}
	return reply{http.StatusOK, out}
}

func (s *Server) appendLog(_ *http.Request, j *job, body []byte) reply {
	j.log.Write(body)
	return reply{http.StatusNoContent, nil}
}

func (s *Server) updateStep(_ *http.Request, j *job, body []byte) reply {
	var in struct {
		Number     int    `json:"number"` // from 1
		Status     string `json:"status"`
		Conclusion string `json:"conclusion"`
	}
	if err := json.Unmarshal(body, &in); err != nil || in.Number < 1 || in.Number > len(j.steps) {
		return reply{http.StatusBadRequest, message("no such step")}
	}
	st := j.steps[in.Number-1]
	st.status, st.conclusion = in.Status, in.Conclusion
	if in.Status == StatusInProgress {
		st.started = s.now()
	}
	if in.Status == StatusCompleted {
		st.completed = s.now()
		if st.started.IsZero() {
			st.started = st.completed
		}
	}
	return reply{http.StatusNoContent, nil}
}

func (s *Server) finishJob(_ *http.Request, j *job, body []byte) reply {
	var in struct {
		Result string `json:"result"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return reply{http.StatusBadRequest, message("cannot parse the result: " + err.Error())}
	}
	if j.status != StatusInProgress {
		return reply{http.StatusConflict, message("The job is not running.")}
	}
	switch in.Result {
	case "Succeeded":
		s.completeJob(j, ConclusionSuccess)
	case "Failed":
		s.completeJob(j, ConclusionFailure)
	case "Canceled":
		s.completeJob(j, ConclusionCancelled)
	default:
		return reply{http.StatusBadRequest, message("unknown result " + in.Result)}
	}
	return reply{http.StatusNoContent, nil}
}

// completeJob ends a running job and frees its runner; an ephemeral registration disappears. Called under mu.
func (s *Server) completeJob(j *job, conclusion string) {
	rn := j.runner
	s.moveJob(j, StatusCompleted, conclusion)
	j.runner = nil
	if rn == nil {
		return
	}
	rn.job, rn.idleSince = nil, s.now()
	if rn.ephemeral {
		s.unregister(rn)
	}
	s.assign()
}
