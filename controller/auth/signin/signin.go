// Package signin finds out who somebody is: by a password, a session's cookie, an API token, or the one-time token with which a fleet
// is claimed. It must never say more to a stranger than that a credential is not good, and never log one.
//
// What goes where: a session that begins or ends, a password that changes and a claim are mutations, each with an audit row written
// by the caller. A failed sign-in changes nothing and may come from anybody at any rate, so it goes to the log alone, with its
// address and without the name, in whose place people type passwords.
package signin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Errors that callers branch on.
var (
	// ErrCredential says that a credential is not good: unknown, expired, revoked, or of a user who is disabled.
	ErrCredential = errors.New("the credential is unknown, expired or revoked")
	// ErrPassword says that there is no such user, or that the password is another.
	ErrPassword = errors.New("the name or the password is wrong")
)

// How long sessions last.
const (
	// SessionIdle is how long a session lasts that is not used.
	SessionIdle = 24 * time.Hour
	// SessionMax is how long a session lasts at most.
	SessionMax = 30 * 24 * time.Hour
	// touchEvery bounds how often the use of a session or an API token is written down.
	touchEvery = time.Minute
)

// Options make a Service.
type Options struct {
	Store  *store.Store
	Now    func() time.Time
	Logger *slog.Logger
}

// Service signs people and programs in.
type Service struct {
	store  *store.Store
	now    func() time.Time
	log    *slog.Logger
	limits *limits
	check  func(hash, password string) error
	setup  atomic.Pointer[string] // the setup token's file
	hashes chan struct{}          // bounds how many passwords are hashed at once: each takes 19 MiB
}

// New makes a Service.
func New(o Options) *Service {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &Service{store: o.Store, now: o.Now, log: o.Logger, limits: newLimits(o.Now), check: auth.VerifyPassword, hashes: make(chan struct{}, 2)}
}

// Token returns the principal of an API token, and records that it was used.
func (s *Service) Token(ctx context.Context, token string) (auth.Principal, error) {
	return s.token(ctx, token, true)
}

// StillToken is Token for a connection that stays open: asking again is no use of the token.
func (s *Service) StillToken(ctx context.Context, token string) (auth.Principal, error) {
	return s.token(ctx, token, false)
}

func (s *Service) token(ctx context.Context, token string, use bool) (auth.Principal, error) {
	t, err := s.store.APITokenByHash(ctx, auth.HashToken(token))
	if err != nil {
		return auth.Principal{}, unknown(err)
	}
	now := s.now()
	if !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt) {
		return auth.Principal{}, ErrCredential
	}
	owner, err := s.user(ctx, t.UserID)
	if err != nil {
		return auth.Principal{}, err
	}
	if use && now.Sub(t.LastUsedAt) >= touchEvery {
		if err := s.store.TouchAPIToken(ctx, t.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
			s.log.Warn("cannot record that an API token was used", "token", t.ID, "err", err)
		}
	}
	return auth.Principal{
		Kind: auth.KindToken, ID: t.ID, Name: owner.Name + "/" + t.Name, UserID: owner.ID, Via: t.ID,
		Grants: grants(t.Grants), Owner: nonNil(grants(owner.Grants)), Scopes: nonNilText(t.Scopes),
	}, nil
}

// Session returns the principal of a session's cookie, and lengthens the session.
func (s *Service) Session(ctx context.Context, cookie string) (auth.Principal, error) {
	return s.session(ctx, cookie, true)
}

// StillSession is Session for a connection that stays open: a page that is merely left open does not lengthen a session.
func (s *Service) StillSession(ctx context.Context, cookie string) (auth.Principal, error) {
	return s.session(ctx, cookie, false)
}

func (s *Service) session(ctx context.Context, cookie string, use bool) (auth.Principal, error) {
	x, err := s.store.SessionByHash(ctx, auth.HashToken(cookie))
	if err != nil {
		return auth.Principal{}, unknown(err)
	}
	now := s.now()
	if !now.Before(x.ExpiresAt) {
		return auth.Principal{}, ErrCredential
	}
	u, err := s.user(ctx, x.UserID)
	if err != nil {
		return auth.Principal{}, err
	}
	if use {
		s.limits.knows(u.Name, x.Address)
	}
	if use && now.Sub(x.LastSeenAt) >= touchEvery {
		if err := s.store.TouchSession(ctx, x.ID, sessionEnd(now, x.CreatedAt)); err != nil && !errors.Is(err, store.ErrNotFound) {
			s.log.Warn("cannot lengthen a session", "session", x.ID, "err", err)
		}
	}
	return userPrincipal(u, x.ID), nil
}

func userPrincipal(u store.User, via string) auth.Principal {
	return auth.Principal{Kind: auth.KindUser, ID: u.ID, Name: u.Name, UserID: u.ID, Via: via, Grants: grants(u.Grants)}
}

func sessionEnd(now, created time.Time) time.Time {
	end := now.Add(SessionIdle)
	if last := created.Add(SessionMax); end.After(last) {
		return last
	}
	return end
}

// user returns an enabled user.
func (s *Service) user(ctx context.Context, id string) (store.User, error) {
	u, err := s.store.User(ctx, id)
	if err != nil {
		return u, unknown(err)
	}
	if u.Disabled {
		return u, ErrCredential
	}
	return u, nil
}

// unknown keeps from a stranger what exactly is not good, and the store's faults apart from that.
func unknown(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return ErrCredential
	}
	return fmt.Errorf("cannot check a credential: %w", err)
}

func grants(rows []store.Grant) []auth.Grant {
	out := make([]auth.Grant, len(rows))
	for i, g := range rows {
		out[i] = auth.Grant{Role: auth.Role(g.Role), Scope: auth.Scope{Kind: auth.ScopeKind(g.ScopeKind), ID: g.ScopeID}}
	}
	return out
}

// An empty list limits to nothing, and nil does not limit: the difference must survive the database.
func nonNil(g []auth.Grant) []auth.Grant {
	if g == nil {
		return []auth.Grant{}
	}
	return g
}

func nonNilText(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
