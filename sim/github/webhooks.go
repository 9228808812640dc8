package github

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// DeliveryAction is what becomes of a delivery.
type DeliveryAction int

// What a delivery policy can decide.
const (
	Deliver   DeliveryAction = iota
	Drop                     // lost: GitHub does not try again
	Duplicate                // delivered twice, same id
	Hold                     // kept until ReleaseHeld
)

// DeliveryRecord is one delivery of one event to one hook.
type DeliveryRecord struct {
	ID        string // X-GitHub-Delivery
	Event     string // workflow_job, ping
	Action    string // queued, in_progress…; empty for ping
	JobID     int64
	HookID    int64
	URL       string
	Header    http.Header
	Body      []byte
	CreatedAt time.Time
	Outcome   string // pending, delivered, failed, dropped, held
	Status    int    // the receiver's last answer, 0 without one
	Attempts  int
	Error     string
}

// hook is one receiver. GitHub can have several for one event: the App's, an organisation's, a repository's.
type hook struct {
	id     int64
	url    string
	secret string
	target string // integration, organization, repository
}

type hooks struct {
	all    []*hook
	policy func(DeliveryRecord) DeliveryAction
	log    []*DeliveryRecord
	held   []*DeliveryRecord
	busy   int // deliveries under way
}

func (h *hooks) init(s *Server) {
	h.all = []*hook{{id: s.newID(), secret: s.app.secret, target: "integration"}}
	h.policy = func(DeliveryRecord) DeliveryAction { return Deliver }
}

// SetWebhookURL says where the App's deliveries go; empty sends none. Set to an address, a ping follows.
func (s *Server) SetWebhookURL(url string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks.all[0].url = url
	if url != "" {
		s.deliver(s.hooks.all[0], "ping", "", nil, 0, s.pingPayload(s.hooks.all[0]))
	}
}

// AddHook adds a second hook for the same events, as an organisation or a repository can have one beside the
// App's: each gets its own delivery id. target is "organization" or "repository".
func (s *Server) AddHook(target, url, secret string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks.all = append(s.hooks.all, &hook{id: s.newID(), url: url, secret: secret, target: target})
}

// SetDeliveryPolicy decides about every delivery before it is sent. f must not call the server. nil delivers all.
func (s *Server) SetDeliveryPolicy(f func(DeliveryRecord) DeliveryAction) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f == nil {
		f = func(DeliveryRecord) DeliveryAction { return Deliver }
	}
	s.hooks.policy = f
}

// Deliveries is every delivery so far, in the order of their events.
func (s *Server) Deliveries() []DeliveryRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return copyRecords(s.hooks.log)
}

// Held is every delivery that is held, in the order of their events.
func (s *Server) Held() []DeliveryRecord {
	s.mu.Lock()
	defer s.mu.Unlock()
	return copyRecords(s.hooks.held)
}

func copyRecords(in []*DeliveryRecord) []DeliveryRecord {
	out := make([]DeliveryRecord, 0, len(in))
	for _, d := range in {
		out = append(out, *d)
	}
	return out
}

// ReleaseHeld sends held deliveries one after the other in the given order of their places in Held; nil is
// all of them as they are. It returns when the last has been answered. Places that are not named stay held.
func (s *Server) ReleaseHeld(order []int) {
	s.mu.Lock()
	held := s.hooks.held
	if order == nil {
		for i := range held {
			order = append(order, i)
		}
	}
	var send []*DeliveryRecord
	for _, i := range order {
		if i >= 0 && i < len(held) && !slices.Contains(send, held[i]) {
			send = append(send, held[i])
		}
	}
	s.hooks.held = slices.DeleteFunc(slices.Clone(held), func(d *DeliveryRecord) bool { return slices.Contains(send, d) })
	s.mu.Unlock()
	for _, d := range send {
		s.send(d)
	}
}

// Redeliver sends a delivery again with the same id and body, as the button of GitHub's page does, whatever became of
// it before. It returns when the receiver has answered; false means that there is no such delivery.
func (s *Server) Redeliver(id string) bool {
	s.mu.Lock()
	i := slices.IndexFunc(s.hooks.log, func(d *DeliveryRecord) bool { return d.ID == id })
	var d *DeliveryRecord
	if i >= 0 {
		d = s.hooks.log[i]
		s.hooks.held = slices.DeleteFunc(s.hooks.held, func(h *DeliveryRecord) bool { return h == d })
	}
	s.mu.Unlock()
	if d == nil {
		return false
	}
	s.send(d)
	return true
}

// WaitDeliveries waits until no delivery is under way; held ones are not.
func (s *Server) WaitDeliveries(ctx context.Context) error {
	for {
		s.mu.Lock()
		busy, changed := s.hooks.busy, s.changed
		s.mu.Unlock()
		if busy == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("cannot wait for %d deliveries under way: %w", busy, ctx.Err())
		}
	}
}

// deliverJob sends a job's event to every hook, if the App has the repository. Called under mu.
func (s *Server) deliverJob(j *job, action string) {
	in := j.run.repo.installation
	if in == nil {
		return
	}
	payload := map[string]any{
		"action": action, "workflow_job": s.jobJSON(j), "repository": s.fullRepository(j.run.repo),
		"sender": s.user(s.account("octocat", false)),
	}
	if in.account.org {
		payload["organization"] = s.organization(in.account)
	}
	for _, h := range s.hooks.all {
		if h.target == "integration" {
			payload["installation"] = map[string]any{"id": in.id, "node_id": node("IntegrationInstallation", in.id)}
		} else {
			delete(payload, "installation")
		}
		s.deliver(h, "workflow_job", action, j, s.targetID(h, j), payload)
	}
}

func (s *Server) targetID(h *hook, j *job) int64 {
	switch h.target {
	case "organization":
		return j.run.repo.owner.id
	case "repository":
		return j.run.repo.id
	}
	return s.app.id
}

func (s *Server) pingPayload(h *hook) map[string]any {
	u := s.URL() + "/app/hook/config"
	return map[string]any{
		"zen": "Keep it logically awesome.", "hook_id": h.id,
		"hook": map[string]any{
			"type": "App", "id": h.id, "name": "web", "active": true, "app_id": s.app.id, "events": s.app.events,
			"config": map[string]any{"content_type": "json", "url": h.url, "insecure_ssl": "0", "secret": "********"},
			"url":    u, "ping_url": u + "/pings", "deliveries_url": s.URL() + "/app/hook/deliveries",
			"created_at": stamp(s.now()), "updated_at": stamp(s.now()),
		},
	}
}

// deliver records one delivery and does with it what the policy says. Called under mu.
func (s *Server) deliver(h *hook, event, action string, j *job, target int64, payload map[string]any) {
	if h.url == "" {
		return
	}
	if target == 0 {
		target = s.app.id
	}
	body, err := json.Marshal(payload)
	if err != nil {
		s.log.Error("cannot encode a webhook", "event", event, "error", err)
		return
	}
	mac := hmac.New(sha256.New, []byte(h.secret))
	mac.Write(body)
	d := &DeliveryRecord{
		ID: s.guid(), Event: event, Action: action, HookID: h.id, URL: h.url, Body: body, CreatedAt: s.now(), Outcome: "pending",
		Header: http.Header{
			"Content-Type": {"application/json"}, "Accept": {"*/*"},
			"User-Agent":                             {"GitHub-Hookshot/0d0f1e5"},
			"X-Github-Event":                         {event},
			"X-Github-Hook-Id":                       {strconv.FormatInt(h.id, 10)},
			"X-Github-Hook-Installation-Target-Id":   {strconv.FormatInt(target, 10)},
			"X-Github-Hook-Installation-Target-Type": {h.target},
			"X-Hub-Signature-256":                    {"sha256=" + hex.EncodeToString(mac.Sum(nil))},
		},
	}
	d.Header.Set("X-GitHub-Delivery", d.ID)
	if j != nil {
		d.JobID = j.id
	}
	s.hooks.log = append(s.hooks.log, d)
	switch s.hooks.policy(*d) {
	case Deliver:
		s.sendLater(d)
	case Duplicate:
		s.sendLater(d)
		s.sendLater(d)
	case Hold:
		d.Outcome = "held"
		s.hooks.held = append(s.hooks.held, d)
	default:
		d.Outcome = "dropped"
	}
}

func (s *Server) sendLater(d *DeliveryRecord) {
	if s.ctx.Err() == nil {
		s.hooks.busy++
		s.wg.Go(func() {
			s.send(d)
			s.mu.Lock()
			defer s.mu.Unlock()
			s.hooks.busy--
			s.touch()
		})
	}
}

// send posts one delivery once: GitHub does not try again by itself.
func (s *Server) send(d *DeliveryRecord) {
	status, err := s.post(d)
	s.mu.Lock()
	defer s.mu.Unlock()
	d.Attempts++
	d.Status, d.Outcome, d.Error = status, "delivered", ""
	if err == nil && (status < 200 || status > 299) {
		err = fmt.Errorf("the receiver answered %d", status)
	}
	if err != nil {
		d.Outcome, d.Error = "failed", err.Error()
		s.log.Debug("delivery failed", "id", d.ID, "event", d.Event, "action", d.Action, "error", err)
	}
	s.touch()
}

func (s *Server) post(d *DeliveryRecord) (int, error) {
	req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, d.URL, bytes.NewReader(d.Body))
	if err != nil {
		return 0, fmt.Errorf("cannot deliver: %w", err)
	}
	req.Header = d.Header.Clone()
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("cannot deliver: %w", err)
	}
	return resp.StatusCode, resp.Body.Close()
}
