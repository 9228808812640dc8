package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

func audited(action, objectID string) *store.Audited {
	return &store.Audited{Row: store.AuditRow{ActorKind: "user", ActorID: "usr_a", ActorName: "ada", Action: action, ObjectKind: "setting", ObjectID: objectID}}
}

func TestAMutationAndItsAuditRowAreOneTransaction(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	ctx := context.Background()
	good := audited("set", "one")
	if err := s.SetSetting(store.WithAudited(ctx, good), "k", "v"); err != nil {
		t.Fatal(err)
	}
	if !good.Done() {
		t.Error("the row is not known to be written")
	}
	bad := audited("set", "two")
	if err := s.DeletePool(store.WithAudited(ctx, bad), "pool_none"); !errors.Is(err, store.ErrNotFound) {
		t.Fatalf("got %v", err)
	}
	rows, err := s.AuditRows(ctx, store.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	if bad.Done() || len(rows) != 1 || rows[0].ObjectID != "one" || rows[0].Seq != 1 {
		t.Errorf("a failed write left a row, or the good one is missing: %+v", rows)
	}
	// The second write of one request adds no row.
	if err := s.SetSetting(store.WithAudited(ctx, good), "k2", "v"); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendAudit(ctx, good); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendAudit(ctx, bad); err != nil {
		t.Fatal(err)
	}
	rows, err = s.AuditRows(ctx, store.AuditFilter{})
	if err != nil || len(rows) != 2 || rows[0].ObjectID != "two" {
		t.Errorf("%v %+v", err, rows)
	}
}

func TestTheAuditChainShowsWhatIsMissingOrEdited(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage   string
		brokenAt int64
		why      string
	}{
		"untouched":           {"", 0, ""},
		"edited":              {"UPDATE audit SET actor_name = 'eve' WHERE seq = 3", 3, "edited"},
		"edited with time":    {"UPDATE audit SET at = at + 1 WHERE seq = 1", 1, "edited"},
		"missing":             {"DELETE FROM audit WHERE seq = 4", 4, "missing"},
		"first missing":       {"DELETE FROM audit WHERE seq = 1", 1, "missing"},
		"missing at the end":  {"DELETE FROM audit WHERE seq > 5", 6, "missing from the end"},
		"all missing":         {"DELETE FROM audit", 1, "missing from the end"},
		"exchanged":           {"UPDATE audit SET seq = CASE seq WHEN 2 THEN -1 ELSE 2 END WHERE seq IN (2, 3)", 2, ""},
		"moved between cells": {"UPDATE audit SET actor_id = '', actor_name = actor_id || actor_name WHERE seq = 2", 2, "edited"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := storetest.Open(t)
			ctx := context.Background()
			for i := range 7 {
				if err := s.AppendAudit(ctx, audited("act", fmt.Sprint(i))); err != nil {
					t.Fatal(err)
				}
			}
			if c.damage != "" {
				if err := s.Write(ctx, func(exec func(string, ...any) error) error { return exec(c.damage) }); err != nil {
					t.Fatal(err)
				}
			}
			v, err := s.VerifyAudit(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if v.BrokenAt != c.brokenAt || !strings.Contains(v.Why, c.why) {
				t.Errorf("got %+v", v)
			}
			if c.damage == "" && (v.Rows != 7 || len(v.Head) != 64) {
				t.Errorf("got %+v", v)
			}
		})
	}
}

func TestAClaimIsWrittenWithTheMutation(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	ctx := context.Background()
	id := store.ClaimID("usr_a", "key")
	a := audited("set", "obj_1")
	a.Claim = &store.Claim{ID: id, RequestHash: "h"}
	if err := s.SetSetting(store.WithAudited(ctx, a), "k", "v"); err != nil {
		t.Fatal(err)
	}
	got, err := s.Answered(ctx, id)
	if err != nil || got == nil || got.Status != 0 || got.ObjectID != "obj_1" {
		t.Fatalf("%v %+v", err, got)
	}
	if err := s.SetAnswer(ctx, id, 201, []byte("secret answer")); err != nil {
		t.Fatal(err)
	}
	got, err = s.Answered(ctx, id)
	if err != nil || got.Status != 201 || string(got.Body) != "secret answer" {
		t.Errorf("%v %+v", err, got)
	}
	again := audited("set", "obj_2")
	again.Claim = a.Claim
	if err := s.SetSetting(store.WithAudited(ctx, again), "k", "w"); !errors.Is(err, store.ErrConflict) {
		t.Errorf("the same key twice: %v", err)
	}
	if all, _ := s.Settings(ctx); all["k"] != "v" {
		t.Errorf("the second request changed something: %v", all)
	}
	if none, err := s.Answered(ctx, store.ClaimID("usr_b", "key")); err != nil || none != nil {
		t.Errorf("another's key: %v %+v", err, none)
	}
}
