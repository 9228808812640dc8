package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// change is what a mutation does, as the audit log shows it. Before and After are what the API shows of the object, nil where
// there is none; so they never hold a secret.
type change struct {
	kind, id, name string
	before, after  any
}

// do carries out a mutation and writes its audit row: in the same transaction as the first write of fn, or by itself when fn
// writes nothing here. A mutation that fails leaves no row;
// one that was carried out is announced to those who follow events.
func (s *Server) do(ctx context.Context, c change, fn func(context.Context) error) error {
	r, who := requestOf(ctx), principal(ctx)
	row := store.AuditRow{
		ActorKind: string(who.Kind), ActorID: who.ID, ActorName: who.Name, Via: who.Via, Address: r.address, RequestID: r.id,
		Action: r.guard.ID, ObjectKind: c.kind, ObjectID: c.id, ObjectName: c.name,
	}
	var err error
	if row.Before, err = auditText(c.before); err == nil {
		row.After, err = auditText(c.after)
	}
	if err != nil {
		return fmt.Errorf("cannot describe a change for the audit log: %w", err)
	}
	a := &store.Audited{Row: row, Claim: r.claim}
	if err := fn(store.WithAudited(ctx, a)); err != nil {
		return err
	}
	r.audit = a
	if err := s.store.AppendAudit(ctx, a); err != nil {
		return err
	}
	s.announce(c.kind, c.id)
	return nil
}

func auditText(v any) (string, error) {
	if v == nil {
		return "", nil
	}
	raw, err := json.Marshal(v)
	return string(raw), err
}

// audited refuses to call a mutation done that left no audit row, or that nobody asked about: a fault of its handler.
func (s *Server) audited(ctx context.Context, g auth.Guard) error {
	r := requestOf(ctx)
	switch {
	case g.Object == auth.InBody && !r.asked:
		return errors.New("the handler of " + g.ID + " did not ask whether the caller may")
	case g.Writes() && r.audit == nil:
		return errors.New("the handler of " + g.ID + " left no audit row")
	}
	return nil
}

// ifMatch refuses a change to what has changed since the caller read it, when they say what they read.
func ifMatch(etag string, now any) error {
	if etag == "" || etag == "*" {
		return nil
	}
	current, err := etagOf(now)
	if err != nil {
		return err
	}
	if !sameMade(etag, current) {
		return problem(http.StatusPreconditionFailed, "It has changed since you read it.", "Read it again and decide again; nothing was changed.")
	}
	return nil
}
