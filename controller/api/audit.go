package api

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// AuditEntry is one mutation: who did what to what, from where.
type AuditEntry struct {
	Seq       int64     `json:"seq" doc:"1, 2, 3 and so on, without a gap"`
	At        time.Time `json:"at"`
	Action    string    `json:"action" doc:"The operation of this API"`
	ActorKind string    `json:"actor_kind" doc:"user, token, setup (a provider setup's command) or local, the machine's owner"`
	ActorID   string    `json:"actor_id"`
	ActorName string    `json:"actor_name"`
	Via       string    `json:"via,omitempty" doc:"The session or API token, by ID"`
	Address   string    `json:"address" doc:"Where the request came from"`
	RequestID string    `json:"request_id" doc:"Names the request in the controller's log"`
	Kind      string    `json:"object_kind" doc:"What was changed"`
	ObjectID  string    `json:"object_id"`
	Name      string    `json:"object_name"`
	Before    any       `json:"before,omitempty" doc:"The object as this API showed it before; absent when it was made"`
	After     any       `json:"after,omitempty" doc:"The object as this API showed it after; absent when it was deleted"`
	PrevHash  string    `json:"prev_hash" doc:"Hash of the entry before; empty for the first"`
	Hash      string    `json:"hash" doc:"SHA-256 over all of the entry and the hash before it"`
}

// AuditVerification is what a check of the whole audit log found.
type AuditVerification struct {
	OK       bool   `json:"ok" doc:"No entry is missing or edited"`
	Entries  int64  `json:"entries" doc:"How many hold, from the first on"`
	Head     string `json:"head" doc:"Hash of the last entry that holds. Note it down elsewhere: an entry with it later proves that nothing before it was changed"`
	BrokenAt int64  `json:"broken_at,omitempty" doc:"The first entry that is missing or edited"`
	Why      string `json:"why,omitempty" doc:"What is wrong with it"`
}

func viewAudit(r store.AuditRow) AuditEntry {
	return AuditEntry{
		Seq: r.Seq, At: r.At, Action: r.Action, ActorKind: r.ActorKind, ActorID: r.ActorID, ActorName: r.ActorName, Via: r.Via, Address: r.Address,
		RequestID: r.RequestID, Kind: r.ObjectKind, ObjectID: r.ObjectID, Name: r.ObjectName,
		Before: object(r.Before), After: object(r.After), PrevHash: r.PrevHash, Hash: r.Hash,
	}
}

// object is JSON as it was written; text that is none, in a row that somebody edited, is shown as text.
func object(text string) any {
	if text == "" {
		return nil
	}
	if !json.Valid([]byte(text)) {
		return text
	}
	return json.RawMessage(text)
}

type (
	auditOutput        struct{ Body Page[AuditEntry] }
	verificationOutput struct{ Body AuditVerification }
	listAudit          struct {
		PageParams
		ActorID    string    `query:"actor_id" maxLength:"64" doc:"Only what this user or API token did"`
		ObjectID   string    `query:"object_id" maxLength:"128" doc:"Only what was done to this object"`
		ObjectKind string    `query:"object_kind" maxLength:"64" doc:"Only what was done to objects of this kind"`
		Action     string    `query:"action" maxLength:"64" doc:"Only this operation"`
		Since      time.Time `query:"since" doc:"Only from this time on"`
		Until      time.Time `query:"until" doc:"Only before this time"`
		After      int64     `query:"after" minimum:"0" doc:"Only entries with a greater number, to follow the log"`
	}
)

func addAudit(s *Server) {
	register(s, "list-audit", s.listAudit)
	register(s, "verify-audit", s.verifyAudit)
}

// auditSort is the one order of the audit log.
const auditSort = "-seq"

func (s *Server) listAudit(ctx context.Context, in *listAudit) (*auditOutput, error) {
	at, err := parseCursor(in.Cursor, auditSort)
	if err != nil {
		return nil, err
	}
	f := store.AuditFilter{
		ActorID: in.ActorID, ObjectID: in.ObjectID, ObjectKind: in.ObjectKind, Action: in.Action, Since: in.Since, Until: in.Until,
		After: in.After, Limit: in.Limit + 1,
	}
	if in.Cursor != "" {
		if f.Before, err = strconv.ParseInt(at.ID, 10, 64); err != nil || f.Before < 1 {
			return nil, invalid("query.cursor", "the cursor is not one of this list's")
		}
	}
	rows, err := s.store.AuditRows(ctx, f)
	if err != nil {
		return nil, err
	}
	page := Page[AuditEntry]{Items: []AuditEntry{}}
	for i, r := range rows {
		if i == in.Limit {
			page.NextCursor = cursor{Sort: auditSort, ID: strconv.FormatInt(page.Items[i-1].Seq, 10)}.String()
			break
		}
		page.Items = append(page.Items, viewAudit(r))
	}
	return &auditOutput{page}, nil
}

func (s *Server) verifyAudit(ctx context.Context, _ *struct{}) (*verificationOutput, error) {
	v, err := s.store.VerifyAudit(ctx)
	if err != nil {
		return nil, err
	}
	if v.BrokenAt != 0 {
		s.log.Error("the audit log does not hold", "at", v.BrokenAt, "why", v.Why)
	}
	return &verificationOutput{AuditVerification{OK: v.BrokenAt == 0, Entries: v.Rows, Head: v.Head, BrokenAt: v.BrokenAt, Why: v.Why}}, nil
}
