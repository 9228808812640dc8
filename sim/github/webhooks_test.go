package github

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func TestDeliveriesAreSigned(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.SetWebhookURL(r.sink.URL)
	queue(r, "zoomies")
	guid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	all := r.settled()
	if len(all) != 2 {
		t.Fatalf("%d deliveries; want a ping and a job", len(all))
	}
	events := map[string]bool{}
	for _, x := range all {
		mac := hmac.New(sha256.New, []byte(r.App().WebhookSecret))
		mac.Write(x.body)
		if got, want := x.header.Get("X-Hub-Signature-256"), "sha256="+hex.EncodeToString(mac.Sum(nil)); got != want {
			t.Errorf("signature %s, want %s", got, want)
		}
		if id := x.header.Get("X-GitHub-Delivery"); !guid.MatchString(id) {
			t.Errorf("delivery id %q", id)
		}
		if got := x.header.Get("X-GitHub-Hook-Installation-Target-ID"); got != itoa(r.App().ID) {
			t.Errorf("target %q", got)
		}
		if !strings.HasPrefix(x.header.Get("User-Agent"), "GitHub-Hookshot/") || x.header.Get("Content-Type") != "application/json" {
			t.Errorf("headers %v", x.header)
		}
		events[x.header.Get("X-GitHub-Event")] = true
	}
	if !events["ping"] || !events["workflow_job"] {
		t.Errorf("events %v", events)
	}
	for _, d := range r.Deliveries() {
		if d.Outcome != "delivered" || d.Status != 202 || d.Attempts != 1 {
			t.Errorf("record %+v", d)
		}
	}
}

func TestDeliveryPolicies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		action   DeliveryAction
		arrivals int
		outcome  string
	}{{Deliver, 1, "delivered"}, {Drop, 0, "dropped"}, {Duplicate, 2, "delivered"}, {Hold, 0, "held"}} {
		r := newRig(t, Options{})
		r.SetDeliveryPolicy(func(d DeliveryRecord) DeliveryAction {
			if d.Event == "ping" {
				return Drop
			}
			return tt.action
		})
		r.SetWebhookURL(r.sink.URL)
		id := queue(r, "zoomies")
		all := r.settled()
		if len(all) != tt.arrivals {
			t.Errorf("%v: %d arrived, want %d", tt.action, len(all), tt.arrivals)
		}
		for _, x := range all { // field report A5: the same GUID twice
			if x.header.Get("X-GitHub-Delivery") != r.Deliveries()[1].ID {
				t.Errorf("%v: another delivery id", tt.action)
			}
		}
		if d := r.Deliveries()[1]; d.Outcome != tt.outcome || d.JobID != id {
			t.Errorf("%v: record %+v", tt.action, d)
		}
	}
}

// TestHeldDeliveriesComeInAnyOrder: what arrives last need not have happened last.
func TestHeldDeliveriesComeInAnyOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.SetDeliveryPolicy(func(d DeliveryRecord) DeliveryAction { return Hold })
	r.SetWebhookURL(r.sink.URL)
	r.ReleaseHeld(nil) // the ping
	id := queue(r, "zoomies")
	f := r.mint("/orgs/acme", "one", "zoomies").online()
	f.take()
	f.finish(id, "Succeeded")
	if n := len(r.Held()); n != 3 {
		t.Fatalf("%d held", n)
	}
	r.ReleaseHeld([]int{2, 0, 9})
	r.ReleaseHeld(nil)
	var got []string
	for _, x := range r.settled()[1:] {
		got = append(got, x.event.Action)
	}
	if s := strings.Join(got, " "); s != "completed queued in_progress" {
		t.Errorf("arrived as %q", s)
	}
	if n := len(r.Held()); n != 0 {
		t.Errorf("%d still held", n)
	}
}

// TestLostDeliveriesAreNotRepeated until somebody asks (field report A2).
func TestLostDeliveriesAreNotRepeated(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.refuse = 500
	r.SetWebhookURL(r.sink.URL)
	queue(r, "zoomies")
	r.settled()
	d := r.Deliveries()[1]
	if d.Outcome != "failed" || d.Attempts != 1 || d.Status != 500 || d.Error == "" {
		t.Errorf("record %+v", d)
	}
	r.mu.Lock()
	r.refuse = 0
	r.mu.Unlock()
	if !r.Redeliver(d.ID) || r.Redeliver("no-such-id") {
		t.Error("redelivery")
	}
	if d := r.Deliveries()[1]; d.Outcome != "delivered" || d.Attempts != 2 {
		t.Errorf("after redelivery: %+v", d)
	}
	all := r.settled()
	if last := all[len(all)-1]; last.header.Get("X-GitHub-Delivery") != d.ID {
		t.Error("a redelivery has another id")
	}
	r.SetWebhookURL("http://127.0.0.1:1/")
	r.settled()
	if ds := r.Deliveries(); ds[len(ds)-1].Outcome != "failed" || ds[len(ds)-1].Status != 0 {
		t.Errorf("to nobody: %+v", ds[len(ds)-1])
	}
}

// TestTwoHookLevels: the App's hook and a repository's say the same under different ids (field report A5).
func TestTwoHookLevels(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.SetWebhookURL(r.sink.URL)
	r.AddHook("repository", r.sink.URL, "another secret")
	r.AddHook("organization", r.sink.URL, "a third secret")
	id := queue(r, "zoomies")
	ids, targets := map[string]bool{}, map[string]bool{}
	for _, x := range r.settled() {
		if x.event.WorkflowJob.ID == id {
			ids[x.header.Get("X-GitHub-Delivery")] = true
			targets[x.header.Get("X-GitHub-Hook-Installation-Target-Type")] = true
			if x.header.Get("X-GitHub-Hook-Installation-Target-Type") != "integration" && strings.Contains(string(x.body), `"installation"`) {
				t.Error("only an App's hook has an installation")
			}
		}
	}
	if len(ids) != 3 || len(targets) != 3 {
		t.Errorf("ids %v, targets %v", ids, targets)
	}
}

func TestUsersHaveNoOrganization(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	in := r.AddInstallation("octocat", "User")
	r.AddRepository(in, "octocat/hello")
	r.SetWebhookURL(r.sink.URL)
	r.QueueJob(JobSpec{Repository: "octocat/hello", Labels: []string{"zoomies"}})
	for _, x := range r.settled() {
		if strings.Contains(string(x.body), `"organization":`) {
			t.Error("a user's repository has an organisation")
		}
	}
}
