package controller

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// The signals that a workload may get.
var (
	errTerminated = errors.New("asked to stop")
	errKilled     = errors.New("killed")
)

// runnerProcess does what run.sh --jitconfig does, without a process: it opens a session, takes one job, and ends. A job's
// first step says how it goes: "exit N" fails, "wait" runs until the test finishes it (rig.finishJob), anything else
// succeeds at once.
type runnerProcess struct {
	r       *rig
	kill    context.CancelCauseFunc
	server  string
	token   string
	session string
}

// run returns the exit code of run.sh.
func (p *runnerProcess) run(ctx context.Context, jit string) int {
	id, err := p.configure(jit)
	if err != nil {
		return 1
	}
	var opened struct {
		SessionID string `json:"sessionId"`
	}
	if status := p.call(ctx, http.MethodPost, "/sessions", map[string]any{"agentId": id, "version": "2.330.0"}, &opened); status != http.StatusOK {
		return 1
	}
	p.session = opened.SessionID
	for ctx.Err() == nil {
		status, m := p.poll(ctx)
		switch {
		case status == http.StatusOK && m.Kind == "RunnerJobRequest":
			var j simgithub.RunnerJob
			if p.call(ctx, http.MethodPost, fmt.Sprintf("/jobs/%d/acquire", m.Body.JobID), nil, &j) != http.StatusOK {
				continue // somebody else's by now
			}
			p.work(ctx, j)
			return 0
		case status == http.StatusNotFound, status == http.StatusUnauthorized:
			return 0 // the registration is gone
		case status == http.StatusForbidden:
			return 1 // too old
		}
	}
	if errors.Is(context.Cause(ctx), errTerminated) {
		p.call(context.WithoutCancel(ctx), http.MethodDelete, "/sessions/"+p.session, nil, nil)
	}
	return 0
}

func (p *runnerProcess) configure(jit string) (id int64, err error) {
	var files map[string]string
	var settings simgithub.RunnerSettings
	var cred simgithub.RunnerCredentials
	unpack := func(blob string, v any) {
		b, derr := base64.StdEncoding.DecodeString(blob)
		err = errors.Join(err, derr, json.Unmarshal(b, v))
	}
	unpack(jit, &files)
	unpack(files[".runner"], &settings)
	unpack(files[".credentials"], &cred)
	p.server, p.token = settings.ServerURL, cred.Data["token"]
	id, perr := strconv.ParseInt(settings.AgentID, 10, 64)
	return id, errors.Join(err, perr)
}

// work runs a job. A killed runner says nothing any more.
func (p *runnerProcess) work(ctx context.Context, j simgithub.RunnerJob) {
	run := ""
	if len(j.Steps) > 0 {
		run = j.Steps[0].Run
	}
	result := "Succeeded"
	switch {
	case strings.HasPrefix(run, "exit "):
		result = "Failed"
	case run == "wait":
		cancelled := make(chan struct{})
		listen, stop := context.WithCancel(ctx)
		defer stop()
		go func() {
			for listen.Err() == nil {
				status, m := p.poll(listen)
				if status == http.StatusOK && m.Kind == "JobCancellation" {
					close(cancelled)
					return
				}
				if status != http.StatusOK && status != http.StatusAccepted {
					return
				}
			}
		}()
		select {
		case <-p.r.jobGate(j.ID):
		case <-cancelled:
			result = "Canceled"
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errKilled) {
				return
			}
			result = "Canceled"
		}
	}
	p.call(context.WithoutCancel(ctx), http.MethodPost, fmt.Sprintf("/jobs/%d/finish", j.ID), map[string]string{"result": result}, nil)
}

type runnerMessage struct {
	Kind string `json:"messageType"`
	Body struct {
		JobID int64 `json:"jobId"`
	} `json:"body"`
}

func (p *runnerProcess) poll(ctx context.Context) (int, runnerMessage) {
	var m runnerMessage
	return p.call(ctx, http.MethodGet, "/sessions/"+p.session+"/message", nil, &m), m
}

// call says one word to the runner service; 0 means that there was no answer.
func (p *runnerProcess) call(ctx context.Context, method, path string, in, out any) int {
	body, err := json.Marshal(in)
	if err != nil {
		return 0
	}
	req, err := http.NewRequestWithContext(ctx, method, p.server+path, bytes.NewReader(body))
	if err != nil {
		return 0
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := p.r.http.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || out != nil && resp.StatusCode == http.StatusOK && json.Unmarshal(raw, out) != nil {
		return 0
	}
	return resp.StatusCode
}
