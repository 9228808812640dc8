package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// A job is told of three times, as in life.
const steps = 3

var actions = [steps]string{"queued", "in_progress", "completed"}

// template makes the deliveries of any number of jobs out of one of the simulated GitHub's, which is as long as a real one.
type template struct {
	installation int64
	secret       string
	bodies       [steps]string
}

// Placeholders in a body: numbers and a word that nothing else of it contains.
const (
	placeJob = "881122334455001"
	placeRun = "881122334455002"
)

const account, widgets = "acme", "acme/widgets"

func newTemplate(ctx context.Context) (t template, err error) {
	gh, err := simgithub.New(simgithub.Options{})
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, gh.Close()) }()
	t.installation, t.secret = gh.AddInstallation(account, "Organization"), gh.App().WebhookSecret
	gh.AddRepository(t.installation, widgets)
	gh.SetDeliveryPolicy(func(simgithub.DeliveryRecord) simgithub.DeliveryAction { return simgithub.Hold })
	gh.SetWebhookURL("http://127.0.0.1:1/held")
	id := gh.QueueJob(simgithub.JobSpec{Repository: widgets, Labels: []string{"self-hosted", "linux", "bench"}})
	if err := gh.WaitDeliveries(ctx); err != nil {
		return t, err
	}
	for _, d := range gh.Held() {
		if d.JobID == id {
			return t, t.fill(d.Body)
		}
	}
	return t, errors.New("the simulated GitHub made no delivery")
}

// fill makes the bodies out of the one that says queued.
func (t *template) fill(queued []byte) error {
	var payload map[string]any
	if err := json.Unmarshal(queued, &payload); err != nil {
		return fmt.Errorf("cannot read the simulated GitHub's delivery: %w", err)
	}
	job, ok := payload["workflow_job"].(map[string]any)
	if !ok {
		return errors.New("the simulated GitHub's delivery has no workflow_job")
	}
	job["id"], job["run_id"] = json.Number(placeJob), json.Number(placeRun)
	for i, action := range actions {
		payload["action"], job["status"] = action, action
		switch action {
		case "in_progress":
			job["started_at"], job["runner_name"], job["runner_id"] = job["created_at"], "another-fleet-1", 17
		case "completed":
			job["completed_at"], job["conclusion"] = job["created_at"], "success"
		}
		body, err := json.Marshal(payload)
		if err != nil {
			return fmt.Errorf("cannot make a delivery: %w", err)
		}
		t.bodies[i] = string(body)
	}
	return nil
}

func (t *template) size() int { return len(t.bodies[0]) }

// delivery is the body and the signature of one step of a job.
func (t *template) delivery(job int64, step int) (body, signature string) {
	// Numbers as long as GitHub's.
	body = strings.NewReplacer(placeJob, fmt.Sprint(41_000_000_000+job), placeRun, fmt.Sprint(15_000_000_000+job)).Replace(t.bodies[step])
	mac := hmac.New(sha256.New, []byte(t.secret))
	mac.Write([]byte(body))
	return body, "sha256=" + hex.EncodeToString(mac.Sum(nil))
}
