package signin

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"os"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// setupSetting keeps the hash of the setup token.
const setupSetting = "internal.setup_token_hash"

const prefixSetup = "zoosetup_"

// ErrSetupToken says that a setup token is not the one that was made.
var ErrSetupToken = errors.New("this is not the setup token")

// PrepareSetup sees to it that an unclaimed fleet has a setup token in the file, for the machine's owner alone. It says whether the
// fleet is unclaimed. A token that is there and good stays, so that a restart does not take it away.
func (s *Service) PrepareSetup(ctx context.Context, file string) (unclaimed bool, err error) {
	s.setup.Store(&file)
	claimed, err := s.store.Claimed(ctx)
	if err != nil {
		return false, err
	}
	if claimed {
		if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, fmt.Errorf("cannot remove the spent setup token: %w", err)
		}
		return false, nil
	}
	all, err := s.store.Settings(ctx)
	if err != nil {
		return false, err
	}
	if old, err := os.ReadFile(file); err == nil && all[setupSetting] != "" && auth.HashToken(trim(old)) == all[setupSetting] {
		return true, nil
	}
	token := auth.NewToken(prefixSetup)
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) { // whatever its mode was
		return false, fmt.Errorf("cannot replace the setup token: %w", err)
	}
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		return false, fmt.Errorf("cannot write the setup token: %w", err)
	}
	return true, s.store.SetSetting(ctx, setupSetting, auth.HashToken(token))
}

func trim(b []byte) string {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r' || b[len(b)-1] == ' ') {
		b = b[:len(b)-1]
	}
	return string(b)
}

// NewOwner checks the setup token and returns the first user, ready to be written by Claim. local is set when the machine's owner
// asks, who needs no token. ErrSetupToken when the token is another, TooManyError after too many failures.
func (s *Service) NewOwner(ctx context.Context, token, name, password, address string, local bool) (store.User, error) {
	if claimed, err := s.store.Claimed(ctx); err != nil {
		return store.User{}, err
	} else if claimed {
		return store.User{}, store.ErrClaimed
	}
	if !local {
		if err := s.checkSetup(ctx, token, address); err != nil {
			return store.User{}, err
		}
	}
	hash, err := s.Hash(ctx, password)
	if err != nil {
		return store.User{}, err
	}
	return store.User{
		ID: store.NewID(store.IDUser), Name: name, Source: "local", PasswordHash: hash,
		Grants: []store.Grant{{Role: string(auth.Platform), ScopeKind: store.ScopeFleet}},
	}, nil
}

func (s *Service) checkSetup(ctx context.Context, token, address string) error {
	// The token cannot be guessed; the budget is for noise, so strangers spend none of the owner's.
	succeeded, wait := s.limits.try("", address)
	if wait > 0 {
		return TooManyError{wait}
	}
	all, err := s.store.Settings(ctx)
	if err != nil {
		return err
	}
	want := all[setupSetting]
	if want == "" || subtle.ConstantTimeCompare([]byte(auth.HashToken(token)), []byte(want)) != 1 {
		s.log.Warn("a claim was refused: its setup token is another", "address", address)
		return ErrSetupToken
	}
	succeeded()
	return nil
}

// Prove counts an attempt to prove something with a random secret from an address, and returns what to call when it succeeded.
// TooManyError after too many failures there. Such a secret cannot be guessed; the budget is for noise.
func (s *Service) Prove(address string) (succeeded func(), err error) {
	succeeded, wait := s.limits.try("", address)
	if wait > 0 {
		return nil, TooManyError{wait}
	}
	return succeeded, nil
}

// Claim writes the first user and spends the setup token. store.ErrClaimed when somebody was faster.
func (s *Service) Claim(ctx context.Context, u store.User) (store.User, error) {
	u, err := s.store.ClaimFleet(ctx, u, setupSetting)
	if err != nil {
		return u, err
	}
	if file := s.setup.Load(); file != nil {
		if err := os.Remove(*file); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.log.Warn("cannot remove the spent setup token; the next start tries again", "err", err)
		}
	}
	return u, nil
}
