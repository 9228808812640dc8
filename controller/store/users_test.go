package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

func platform() []store.Grant {
	return []store.Grant{{Role: "platform", ScopeKind: store.ScopeFleet}}
}

// Two admins who change one user at the same time must not undo each other's change unseen: one may have taken a role away.
func TestAUserIsChangedAsTheyWereRead(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	if _, err := s.CreateUser(t.Context(), store.User{Name: "root", Source: "local", Grants: platform()}); err != nil {
		t.Fatal(err)
	}
	u, err := s.CreateUser(t.Context(), store.User{Name: "ada", Source: "local", PasswordHash: "h", Grants: platform()})
	if err != nil {
		t.Fatal(err)
	}
	first, second := u, u
	first.Grants, second.Name = nil, "eve"
	if err := s.UpdateUser(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := s.UpdateUser(t.Context(), second); !errors.Is(err, store.ErrConflict) || store.NameTaken(err) {
		t.Errorf("a change to what was read before: %v", err)
	}
	now, err := s.User(t.Context(), u.ID)
	if err != nil || now.Name != "ada" || len(now.Grants) != 0 {
		t.Errorf("the user is %+v, %v", now, err)
	}
	now.Name = "root"
	if err := s.UpdateUser(t.Context(), now); !store.NameTaken(err) {
		t.Errorf("a taken name: %v", err)
	}
}

func TestSessionsEndWithThePassword(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	u, err := s.CreateUser(t.Context(), store.User{Name: "ada", Source: "local", PasswordHash: "h", Grants: platform()})
	if err != nil {
		t.Fatal(err)
	}
	begin := func(hash, proof, fresh string) error {
		_, err := s.BeginSession(t.Context(), store.Session{ID: hash, Hash: hash, UserID: u.ID, ExpiresAt: time.Now().Add(time.Hour)}, proof, fresh)
		return err
	}
	count := func() int {
		list, err := s.Sessions(t.Context(), u.ID)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if err := errors.Join(begin("a", "h", ""), begin("b", "h", "h2"), begin("c", "h2", "")); err != nil {
		t.Fatal(err)
	}
	if err := begin("d", "h", ""); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a session on an old password: %v", err)
	}
	if err := s.SetPassword(t.Context(), u.ID, "h", "h3", ""); !errors.Is(err, store.ErrConflict) {
		t.Errorf("another password on an old one: %v", err)
	}
	if n := count(); n != 3 {
		t.Errorf("%d sessions", n)
	}
	if err := s.SetPassword(t.Context(), u.ID, "h2", "h3", "a"); err != nil || count() != 1 {
		t.Errorf("%v, %d sessions besides the one that is kept", err, count()-1)
	}
	if u, err = s.User(t.Context(), u.ID); err != nil {
		t.Fatal(err)
	}
	u.Name = "eve"
	if err := s.UpdateUser(t.Context(), u); err != nil || count() != 1 {
		t.Errorf("a new name: %v, %d sessions", err, count())
	}
	if u, err = s.User(t.Context(), u.ID); err != nil {
		t.Fatal(err)
	}
	u.PasswordHash = "h4"
	if err := s.UpdateUser(t.Context(), u); err != nil || count() != 0 {
		t.Errorf("a new password: %v, %d sessions", err, count())
	}
}
