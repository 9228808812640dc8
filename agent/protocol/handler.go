package protocol

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// answerSlack is what a poll may take beyond its wait before its connection is given up.
const answerSlack = 30 * time.Second

// Handler serves the agent API over HTTP from c. It authenticates nobody itself: it takes the
// credential from the request and c judges it. Mount it at the root, since it routes by the
// whole path.
func Handler(c Controller) http.Handler {
	h := handler{c}
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+PathJoin, h.join)
	mux.HandleFunc("POST "+PathHeartbeat, h.heartbeat)
	mux.HandleFunc("GET "+PathTasks, h.poll)
	mux.HandleFunc("POST "+PathResult, h.result)
	mux.HandleFunc("POST "+PathReports, h.report)
	mux.HandleFunc("POST "+PathLogs+"{stream}", h.logs)
	return mux
}

type handler struct{ c Controller }

// ReportsBody is the body of a report; an object, so that it can grow.
type ReportsBody struct {
	Reports []RunnerReport `json:"reports"`
}

// TaskBody is the answer to a poll; Task is nil when there was none.
type TaskBody struct {
	Task *Task `json:"task"`
}

func (h handler) join(w http.ResponseWriter, r *http.Request) {
	var req JoinRequest
	if err := decodeRequest(r, &req); err != nil {
		WriteError(w, err)
		return
	}
	resp, err := h.c.Join(r.Context(), req)
	answer(w, resp, err)
}

func (h handler) heartbeat(w http.ResponseWriter, r *http.Request) {
	cred, err := CredentialOf(r)
	if err != nil {
		WriteError(w, err)
		return
	}
	var hb Heartbeat
	if err := decodeRequest(r, &hb); err != nil {
		WriteError(w, err)
		return
	}
	resp, err := h.c.Heartbeat(r.Context(), cred, hb)
	answer(w, resp, err)
}

func (h handler) poll(w http.ResponseWriter, r *http.Request) {
	cred, err := CredentialOf(r)
	if err != nil {
		WriteError(w, err)
		return
	}
	wait, err := waitOf(r)
	if err != nil {
		WriteError(w, err)
		return
	}
	// A server's own write timeout is made for quick answers; this one waits on purpose.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(wait + answerSlack))
	task, err := h.c.Poll(withHeldOf(r), cred, wait)
	answer(w, TaskBody{Task: task}, err)
}

func (h handler) result(w http.ResponseWriter, r *http.Request) {
	cred, err := CredentialOf(r)
	if err != nil {
		WriteError(w, err)
		return
	}
	var res TaskResult
	if err := decodeRequest(r, &res); err != nil {
		WriteError(w, err)
		return
	}
	answer(w, struct{}{}, h.c.Result(r.Context(), cred, res))
}

func (h handler) report(w http.ResponseWriter, r *http.Request) {
	cred, err := CredentialOf(r)
	if err != nil {
		WriteError(w, err)
		return
	}
	var body ReportsBody
	if err := decodeRequest(r, &body); err != nil {
		WriteError(w, err)
		return
	}
	resp, err := h.c.Report(r.Context(), cred, body.Reports)
	answer(w, resp, err)
}

// logs hands the request's body to the controller as it arrives. It may last as long as a job.
func (h handler) logs(w http.ResponseWriter, r *http.Request) {
	cred, err := CredentialOf(r)
	if err != nil {
		WriteError(w, err)
		return
	}
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Time{})
	_ = rc.SetWriteDeadline(time.Time{})
	// When the last viewer leaves, the answer must go out although the body has not ended.
	_ = rc.EnableFullDuplex()
	w.Header().Set("Connection", "close")
	answer(w, struct{}{}, h.c.SendLogs(r.Context(), cred, r.PathValue("stream"), r.Body))
}

func answer(w http.ResponseWriter, v any, err error) {
	if err != nil {
		WriteError(w, err)
		return
	}
	WriteJSON(w, http.StatusOK, v)
}

func decodeRequest(r *http.Request, v any) error {
	if !isJSON(r) {
		return fmt.Errorf("%w: Content-Type must be application/json", ErrInvalid)
	}
	err := Decode(r.Body, v)
	if err != nil && !errors.Is(err, ErrInvalid) {
		return fmt.Errorf("%w: the body broke off", ErrInvalid)
	}
	return err
}
