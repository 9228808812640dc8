package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/metrics"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Outcomes of a delivery, the values of the label "outcome".
const (
	outcomeApplied   = "applied"
	outcomeDuplicate = "duplicate"
	outcomeIgnored   = "ignored"
	outcomeRefused   = "refused"
	outcomeFailed    = "failed"
)

// webhook takes in one delivery. Nothing of its body is read before its signature is verified, and it is answered
// only when what it says is on disk: GitHub does not send it again.
func (c *Controller) webhook(w http.ResponseWriter, r *http.Request) {
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(webhookRead)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		c.log.Debug("cannot bound the reading of a webhook", "err", err)
	}
	if c.stoodDown.Load() {
		http.Error(w, errStoodDown.Error(), http.StatusServiceUnavailable)
		return
	}
	status, outcome, detail := c.takeDelivery(r)
	c.metrics.Inc(metrics.Deliveries, outcome)
	if status >= http.StatusBadRequest {
		c.log.Warn("refusing a webhook delivery", "delivery", r.Header.Get("X-GitHub-Delivery"), "status", status, "reason", detail)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"outcome": outcome, "detail": detail}) // the client is gone: nothing to do
}

func (c *Controller) takeDelivery(r *http.Request) (status int, outcome, detail string) {
	ctx := r.Context()
	d, err := github.ReadDelivery(r, c.settings().MaxWebhookBody)
	if err != nil {
		status := http.StatusBadRequest
		if refusal, ok := errors.AsType[*github.DeliveryError](err); ok {
			status = refusal.Status
		}
		return status, outcomeRefused, err.Error()
	}
	ins, err := c.store.Installations(ctx)
	if err != nil {
		c.log.Error("cannot read installations", "err", err)
		return http.StatusInternalServerError, outcomeFailed, "the installations cannot be read"
	}
	keys := make([]secrets.Value, 0, len(ins))
	for _, in := range ins {
		if !in.WebhookSecret.Empty() {
			keys = append(keys, in.WebhookSecret)
		}
	}
	if !github.Verify(d.Body, d.Signature, keys) && !c.fromNewApp(ctx, d) {
		return http.StatusUnauthorized, outcomeRefused, "the signature fits no webhook secret of this fleet"
	}
	if why := d.Ignored(); why != "" {
		return http.StatusOK, outcomeIgnored, why
	}
	body, err := d.Payload()
	if err != nil {
		return http.StatusBadRequest, outcomeRefused, err.Error()
	}
	ev, err := github.ParseWorkflowJob(body)
	switch {
	case errors.Is(err, github.ErrIgnored):
		return http.StatusOK, outcomeIgnored, err.Error()
	case err != nil:
		return http.StatusBadRequest, outcomeRefused, err.Error()
	}
	return c.applyDelivery(ctx, d, ev, ins)
}

// fromNewApp says whether an App sent a delivery that the fleet made, and that is not connected by an installation yet.
func (c *Controller) fromNewApp(ctx context.Context, d github.Delivery) bool {
	apps, err := c.store.GitHubApps(ctx)
	if err != nil {
		c.log.Error("cannot read the Apps", "err", err)
		return false
	}
	var keys []secrets.Value
	for _, a := range apps {
		if !a.WebhookSecret.Empty() {
			keys = append(keys, a.WebhookSecret)
		}
	}
	return github.Verify(d.Body, d.Signature, keys)
}

func (c *Controller) applyDelivery(ctx context.Context, d github.Delivery, ev github.WorkflowJobEvent, ins []store.Installation) (int, string, string) {
	row := store.Delivery{ID: d.ID, Event: d.Event, Action: ev.Action, GitHubJobID: ev.Job.GitHubID, ReceivedAt: c.now()}
	var update *store.JobUpdate
	if in, ok := owner(ins, ev); ok {
		row.InstallationID, row.Outcome = in.ID, outcomeApplied
		u := jobUpdate(in.ID, ev.Job, false)
		update = &u
		defer c.links.begin(u)()
	} else {
		row.Outcome = fmt.Sprintf("no installation serves %s", ev.Job.Repository)
	}
	fresh, ch, err := c.store.IngestDelivery(ctx, row, update)
	switch {
	case err != nil:
		c.reconcile.Set() // a decision may have counted on it
		c.log.Error("cannot record a webhook delivery", "delivery", d.ID, "err", err)
		return http.StatusInternalServerError, outcomeFailed, "the delivery cannot be recorded"
	case !fresh:
		return http.StatusOK, outcomeDuplicate, "this delivery was taken in before"
	case update == nil:
		return http.StatusAccepted, outcomeIgnored, row.Outcome
	}
	// It is on disk, and will not be sent again: what follows from it is done even if the sender has hung up.
	if err := c.jobMoved(context.WithoutCancel(ctx), ch); err != nil {
		// The poller and the check of silent jobs finish what could not be done now.
		c.log.Error("cannot act on a webhook delivery", "delivery", d.ID, "err", err)
	}
	return http.StatusAccepted, outcomeApplied, ""
}

// owner finds the installation that owns the repository of a delivery, whoever's secret signed it. The same job told through
// an organisation's hook and through a repository's is therefore one job.
func owner(ins []store.Installation, ev github.WorkflowJobEvent) (store.Installation, bool) {
	var found store.Installation
	for _, in := range ins {
		if !ev.OwnedBy(in.Account) {
			continue
		}
		if ev.InstallationID != 0 && in.InstallationID == ev.InstallationID {
			return in, true
		}
		if found.ID == "" {
			found = in
		}
	}
	return found, found.ID != ""
}
