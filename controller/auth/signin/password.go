package signin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Bounds on a password, in characters: NIST SP 800-63B asks for at least eight and for no rule on what they are.
const (
	MinPassword = 10
	MaxPassword = 256
)

// TooManyError says that there were too many failures, and after how long to try again.
type TooManyError struct{ RetryAfter time.Duration }

// Error implements error.
func (e TooManyError) Error() string {
	return fmt.Sprintf("too many failed attempts; try again in %s", e.RetryAfter.Round(time.Second))
}

// CheckPassword refuses a password that is too short, too long, or the user's own name.
func CheckPassword(name, password string) error {
	switch n := utf8.RuneCountInString(password); {
	case n < MinPassword || n > MaxPassword:
		return fmt.Errorf("a password has %d to %d characters", MinPassword, MaxPassword)
	case strings.Contains(strings.ToLower(password), strings.ToLower(name)) && len(password) < len(name)+MinPassword:
		return errors.New("a password must be more than the user's name and a few characters")
	}
	return nil
}

// SignedIn is a new session. Cookie is its secret.
type SignedIn struct {
	Cookie    string
	Session   store.Session
	Principal auth.Principal
}

// decoy is what the password of a user who is not there is checked against, so that it takes as long.
var decoy = sync.OnceValue(func() string { return auth.HashPassword(auth.NewToken("")) })

// SignIn checks a name and a password and begins a session. ErrPassword when they do not fit, TooManyError after too many failures
// of that name or address.
func (s *Service) SignIn(ctx context.Context, name, password, address, agent string) (SignedIn, error) {
	name = strings.ToLower(name)
	if wait := s.limits.wait(name, address); wait > 0 {
		return SignedIn{}, TooManyError{wait}
	}
	u, err := s.store.UserByName(ctx, name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return SignedIn{}, fmt.Errorf("cannot sign in: %w", err)
	}
	hash := u.PasswordHash
	if hash == "" {
		hash = decoy()
	}
	verr := s.verify(ctx, hash, password)
	if err != nil || u.PasswordHash == "" || u.Disabled || verr != nil {
		if ctx.Err() != nil {
			return SignedIn{}, ctx.Err()
		}
		if errors.Is(verr, auth.ErrPasswordHash) {
			s.log.Error("a user's stored password cannot be read", "user", u.ID, "err", verr)
		}
		s.limits.failed(name, address)
		s.log.Warn("a sign-in failed", "address", address)
		return SignedIn{}, ErrPassword
	}
	s.limits.succeeded(name, address)
	fresh := ""
	if auth.NeedsRehash(hash) {
		fresh = auth.HashPassword(password)
	}
	if err := s.store.SetSignedIn(ctx, u.ID, fresh); err != nil {
		return SignedIn{}, fmt.Errorf("cannot sign in: %w", err)
	}
	return s.Begin(ctx, u, address, agent)
}

// Begin begins a session of a user who has proved themselves otherwise.
func (s *Service) Begin(ctx context.Context, u store.User, address, agent string) (SignedIn, error) {
	cookie, now := auth.NewToken(""), s.now()
	x, err := s.store.CreateSession(ctx, store.Session{
		Hash: auth.HashToken(cookie), UserID: u.ID, Address: address, Agent: agent[:min(len(agent), 200)], ExpiresAt: sessionEnd(now, now),
	})
	if err != nil {
		return SignedIn{}, err
	}
	return SignedIn{Cookie: cookie, Session: x, Principal: userPrincipal(u, x.ID)}, nil
}

// verify compares a password with a hash, at most so many at once.
func (s *Service) verify(ctx context.Context, hash, password string) error {
	if utf8.RuneCountInString(password) > MaxPassword {
		return auth.ErrPassword
	}
	select {
	case s.hashes <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.hashes }()
	return auth.VerifyPassword(hash, password)
}

// Verify says whether a password is a user's own. ErrPassword when it is not.
func (s *Service) Verify(ctx context.Context, u store.User, password, address string) error {
	if wait := s.limits.wait(u.Name, address); wait > 0 {
		return TooManyError{wait}
	}
	err := s.verify(ctx, u.PasswordHash, password)
	if errors.Is(err, auth.ErrPassword) {
		s.limits.failed(u.Name, address)
		return ErrPassword
	}
	return err
}
