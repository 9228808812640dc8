package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zoomies-fleet/zoomies/controller"
	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// target takes deliveries in.
type target struct {
	store *store.Store
	send  func(ctx context.Context, job int64, step int) error
	in    store.Installation
	pool  store.Pool
	tmpl  template
	ends  []func() error // in reverse
}

func newTarget(ctx context.Context, dir, way string, tmpl template) (t *target, err error) {
	t = &target{tmpl: tmpl}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.close())
		}
	}()
	keys, err := secrets.LoadOrCreate(filepath.Join(dir, "zoomies.keys"))
	if err != nil {
		return t, err
	}
	quiet := slog.New(slog.DiscardHandler)
	if t.store, err = store.Open(ctx, store.Options{Path: filepath.Join(dir, "zoomies.db"), Keys: keys, Logger: quiet}); err != nil {
		return t, err
	}
	t.ends = append(t.ends, t.store.Close)
	if err := t.seed(ctx); err != nil {
		return t, err
	}
	if way == "store" {
		t.send = t.ingest
		return t, nil
	}
	c, err := controller.New(ctx, controller.Options{
		Store: t.store, Settings: controller.DefaultSettings(), Version: "bench", Logger: quiet, GitHub: noGitHub,
	})
	if err != nil {
		return t, err
	}
	if way == "controller" {
		t.runLoops(ctx, c)
	}
	t.serve(c.Handler())
	return t, nil
}

// noGitHub stands for an installation whose GitHub cannot be asked: deliveries alone say what happens.
func noGitHub(store.Installation) (github.API, error) {
	return nil, errors.New("this benchmark has no GitHub to ask")
}

// seed writes what a small fleet has: an installation, and a pool that takes the jobs but has no host to run them on.
func (t *target) seed(ctx context.Context) (err error) {
	t.in, err = t.store.CreateInstallation(ctx, store.Installation{
		Name: account, AppID: 1, InstallationID: t.tmpl.installation, Account: account, AccountType: "Organization",
		PrivateKey: secrets.Of(strings.Repeat("k", 1700)), WebhookSecret: secrets.Of(t.tmpl.secret), // as long as an App's key
	})
	if err != nil {
		return err
	}
	t.pool, err = t.store.CreatePool(ctx, store.Pool{
		Name: "bench", InstallationID: t.in.ID, Labels: []string{"linux", "bench"}, Backend: "podman", Image: "none", Max: 10, Enabled: true, Ephemeral: true,
	})
	return err
}

// ingest writes a delivery straight into the store.
func (t *target) ingest(ctx context.Context, job int64, step int) error {
	u := store.JobUpdate{
		InstallationID: t.in.ID, GitHubID: job + 1, RunID: job + 1, RunAttempt: 1, Repository: widgets, Workflow: "CI", Name: "build",
		Labels: []string{"self-hosted", "linux", "bench"}, State: store.JobState(actions[step]), HTMLURL: "https://github.com/acme/widgets/actions/runs/1/job/1",
	}
	d := store.Delivery{ID: guid(job, step), InstallationID: t.in.ID, Event: "workflow_job", Action: actions[step], GitHubJobID: job + 1, Outcome: "applied"}
	fresh, _, err := t.store.IngestDelivery(ctx, d, &u)
	if err == nil && !fresh {
		return fmt.Errorf("delivery %s was there already", d.ID)
	}
	return err
}

// guid is as long as GitHub's.
func guid(job int64, step int) string { return fmt.Sprintf("%012d-0000-4000-8000-%011d", job, step) }

func (t *target) runLoops(ctx context.Context, c *controller.Controller) {
	ctx, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.ends = append(t.ends, func() error { stop(); return <-done })
}

// serve puts the handler on loopback and sends signed requests to it.
func (t *target) serve(h http.Handler) {
	srv := httptest.NewServer(h)
	transport := &http.Transport{MaxIdleConnsPerHost: senders[len(senders)-1]}
	client := &http.Client{Transport: transport}
	t.ends = append(t.ends, func() error { transport.CloseIdleConnections(); srv.Close(); return nil })
	t.send = func(ctx context.Context, job int64, step int) error {
		body, signature := t.tmpl.delivery(job, step)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL+"/webhooks/github", strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-GitHub-Event", "workflow_job")
		req.Header.Set("X-GitHub-Delivery", guid(job, step))
		req.Header.Set("X-Hub-Signature-256", signature)
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		said, err := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusAccepted {
			return fmt.Errorf("the controller answered %s: %s", resp.Status, said)
		}
		return errors.Join(err, resp.Body.Close())
	}
}

func (t *target) close() error {
	var errs []error
	for _, end := range slices.Backward(t.ends) {
		errs = append(errs, end())
	}
	t.ends = nil
	return errors.Join(errs...)
}
