package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Answers of the service that the listener branches on.
var (
	errUnauthorized = errors.New("the registration has been deleted from the server")
	errGone         = errors.New("the registration no longer exists")
	errConflict     = errors.New("a session is active already")
	errExpired      = errors.New("the session has expired")
)

// deprecatedError says that the runner is too old; its text is the server's.
type deprecatedError struct{ text string }

func (e *deprecatedError) Error() string { return e.text }

// service speaks the runner service's protocol (see sim/github's sessions.go).
type service struct {
	cfg    config
	client *http.Client
}

func newService(cfg config) *service {
	return &service{cfg: cfg, client: &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		ResponseHeaderTimeout: 100 * time.Second, // longer than a poll is held
		MaxIdleConnsPerHost:   4,
		IdleConnTimeout:       90 * time.Second,
	}}}
}

type runnerMessage struct {
	ID   int64  `json:"messageId"`
	Type string `json:"messageType"`
	Body struct {
		JobID int64 `json:"jobId"`
	} `json:"body"`
}

type runnerStep struct {
	Name string `json:"name"`
	Run  string `json:"run"`
}

type runnerJob struct {
	ID         int64        `json:"id"`
	RunID      int64        `json:"runId"`
	RunAttempt int64        `json:"runAttempt"`
	Name       string       `json:"name"`
	Workflow   string       `json:"workflow"`
	Repository string       `json:"repository"`
	SHA        string       `json:"sha"`
	Steps      []runnerStep `json:"steps"`
}

// do sends one request and decodes the answer into out.
func (s *service) do(ctx context.Context, method, path string, in, out any) (int, error) {
	var body io.Reader
	switch v := in.(type) {
	case nil:
	case []byte:
		body = bytes.NewReader(v)
	default:
		b, err := json.Marshal(in)
		if err != nil {
			return 0, fmt.Errorf("cannot encode a request: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.cfg.ServerURL+path, body)
	if err != nil {
		return 0, fmt.Errorf("cannot make a request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+s.cfg.token)
	req.Header.Set("User-Agent", "GitHubActionsRunner-linux-x64/"+version)
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return 0, fmt.Errorf("cannot read the answer: %w", err)
	}
	if resp.StatusCode >= 400 {
		var said struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(raw, &said) // the status says enough
		return resp.StatusCode, classify(resp.StatusCode, said.Message)
	}
	if out != nil && len(raw) > 0 {
		if err := json.Unmarshal(raw, out); err != nil {
			return resp.StatusCode, fmt.Errorf("cannot parse the answer: %w", err)
		}
	}
	return resp.StatusCode, nil
}

func classify(status int, text string) error {
	switch status {
	case http.StatusUnauthorized:
		return errUnauthorized
	case http.StatusForbidden:
		return &deprecatedError{text}
	case http.StatusNotFound:
		return errGone
	case http.StatusConflict:
		return errConflict
	case http.StatusGone:
		return errExpired
	}
	return fmt.Errorf("the server answered %d %s", status, text)
}

func (s *service) openSession(ctx context.Context) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "RUNNER"
	}
	var out struct {
		SessionID string `json:"sessionId"`
	}
	_, err = s.do(ctx, http.MethodPost, "/sessions", map[string]any{
		"agentId": s.cfg.AgentID, "agentName": s.cfg.AgentName, "version": version,
		"ownerName": fmt.Sprintf("%s (PID: %d)", host, os.Getpid()),
	}, &out)
	return out.SessionID, err
}

func (s *service) closeSession(ctx context.Context, id string) error {
	_, err := s.do(ctx, http.MethodDelete, "/sessions/"+id, nil, nil)
	return err
}

// nextMessage polls once; nil without an error means that there is nothing yet.
func (s *service) nextMessage(ctx context.Context, session string) (*runnerMessage, error) {
	var m runnerMessage
	status, err := s.do(ctx, http.MethodGet, "/sessions/"+session+"/message", nil, &m)
	if err != nil || status != http.StatusOK {
		return nil, err
	}
	return &m, nil
}

// persist repeats a request that must get through: for about a minute, unless the server's answer is final.
func (s *service) persist(ctx context.Context, method, path string, in, out any) error {
	_, err := backoff.Retry(ctx, func() (int, error) {
		status, err := s.do(ctx, method, path, in, out)
		if err != nil && status >= 400 && status < 500 {
			return status, backoff.Permanent(err)
		}
		return status, err
	}, backoff.WithMaxElapsedTime(time.Minute))
	return err
}

func jobPath(id int64, verb string) string { return "/jobs/" + strconv.FormatInt(id, 10) + "/" + verb }

func (s *service) acquire(ctx context.Context, id int64) (*runnerJob, error) {
	var j runnerJob
	if err := s.persist(ctx, http.MethodPost, jobPath(id, "acquire"), nil, &j); err != nil {
		return nil, err
	}
	return &j, nil
}

func (s *service) appendLog(ctx context.Context, id int64, text []byte) error {
	return s.persist(ctx, http.MethodPost, jobPath(id, "logs"), text, nil)
}

func (s *service) updateStep(ctx context.Context, id int64, number int, status, conclusion string) error {
	return s.persist(ctx, http.MethodPost, jobPath(id, "steps"), map[string]any{"number": number, "status": status, "conclusion": conclusion}, nil)
}

func (s *service) finish(ctx context.Context, id int64, result string) error {
	return s.persist(ctx, http.MethodPost, jobPath(id, "finish"), map[string]any{"result": result}, nil)
}
