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

// SignedIn is a session that Begin writes. Cookie is its secret.
type SignedIn struct {
	Cookie    string
	Session   store.Session
	Principal auth.Principal
	proof     string // the password hash that was checked
	fresh     string // takes its place, unless empty
}

// decoy is what the password of a user who is not there is checked against, so that it takes as long.
var decoy = sync.OnceValue(func() string { return auth.HashPassword(auth.NewToken("")) })

// SignIn checks a name and a password, and returns the session to begin. ErrPassword when they do not fit, TooManyError after too
// many failures of that name or address. A password is hashed once whether there is such a user or not.
func (s *Service) SignIn(ctx context.Context, name, password, address, agent string) (SignedIn, error) {
	name = strings.ToLower(name)
	succeeded, wait := s.limits.try(name, address)
	if wait > 0 {
		s.log.Warn("sign-ins are refused for a while after too many failures", "address", address, "wait", wait)
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
	if errors.Is(verr, auth.ErrPasswordHash) {
		s.log.Error("a user's stored password cannot be read", "user", u.ID, "err", verr)
		verr = errors.Join(auth.ErrPassword, s.verify(ctx, decoy(), password))
	}
	if err != nil || u.PasswordHash == "" || u.Disabled || verr != nil {
		if ctx.Err() != nil {
			return SignedIn{}, ctx.Err()
		}
		s.log.Warn("a sign-in failed", "address", address) // what stands in the name's place may be a password
		return SignedIn{}, ErrPassword
	}
	succeeded()
	x := s.Prepare(u, address, agent)
	if auth.NeedsRehash(hash) {
		if x.fresh, err = s.Hash(ctx, password); err != nil {
			return SignedIn{}, err
		}
	}
	return x, nil
}

// Prepare returns the session to begin of a user who has proved themselves.
func (s *Service) Prepare(u store.User, address, agent string) SignedIn {
	cookie, now := auth.NewToken(""), s.now()
	x := store.Session{
		ID: store.NewID(store.IDSession), Hash: auth.HashToken(cookie), UserID: u.ID, Address: address, Agent: clean(agent),
		CreatedAt: now, LastSeenAt: now, ExpiresAt: sessionEnd(now, now),
	}
	return SignedIn{Cookie: cookie, Session: x, Principal: userPrincipal(u, x.ID), proof: u.PasswordHash}
}

// clean makes what a browser calls itself fit to be shown.
func clean(agent string) string {
	return strings.ToValidUTF8(agent[:min(len(agent), 200)], "")
}

// Begin writes the session. ErrPassword when the user was disabled, or got another password, in the meantime.
func (s *Service) Begin(ctx context.Context, x *SignedIn) error {
	written, err := s.store.BeginSession(ctx, x.Session, x.proof, x.fresh)
	if errors.Is(err, store.ErrNotFound) {
		return ErrPassword
	} else if err != nil {
		return err
	}
	x.Session = written
	return nil
}

// slot waits until one more password may be hashed. Call what it returns when that is done.
func (s *Service) slot(ctx context.Context) (func(), error) {
	select {
	case s.hashes <- struct{}{}:
		return func() { <-s.hashes }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Hash hashes a password.
func (s *Service) Hash(ctx context.Context, password string) (string, error) {
	done, err := s.slot(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	return auth.HashPassword(password), nil
}

func (s *Service) verify(ctx context.Context, hash, password string) error {
	if utf8.RuneCountInString(password) > MaxPassword {
		return auth.ErrPassword
	}
	done, err := s.slot(ctx)
	if err != nil {
		return err
	}
	defer done()
	return s.check(hash, password)
}

// Verify says whether a password is a user's own. ErrPassword when it is not, TooManyError after too many failures.
func (s *Service) Verify(ctx context.Context, u store.User, password, address string) error {
	succeeded, wait := s.limits.try(u.Name, address)
	if wait > 0 {
		return TooManyError{wait}
	}
	err := s.verify(ctx, u.PasswordHash, password)
	switch {
	case err == nil:
		succeeded()
	case errors.Is(err, auth.ErrPassword):
		return ErrPassword
	}
	return err
}
