package signin_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

func (r *rig) prepare(file string, unclaimed bool) string {
	r.t.Helper()
	got, err := r.PrepareSetup(r.t.Context(), file)
	if err != nil || got != unclaimed {
		r.t.Fatalf("unclaimed: %v, %v", got, err)
	}
	raw, err := os.ReadFile(file)
	if !unclaimed {
		if !errors.Is(err, os.ErrNotExist) {
			r.t.Errorf("a claimed fleet has a setup token: %v", err)
		}
		return ""
	}
	if err != nil {
		r.t.Fatal(err)
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		r.t.Errorf("the setup token's mode: %v, %v", st.Mode(), err)
	}
	return strings.TrimSpace(string(raw))
}

func TestTheSetupTokenFromItsMakingToItsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	file := filepath.Join(t.TempDir(), "setup-token")
	token := r.prepare(file, true)
	if again := r.prepare(file, true); again != token {
		t.Error("a restart took the token away")
	}
	if err := os.WriteFile(file, []byte("something else\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	fresh := r.prepare(file, true)
	if fresh == token || !strings.HasPrefix(fresh, "zoosetup_") {
		t.Error("a damaged file was not replaced")
	}
	rows, err := r.store.Settings(t.Context())
	if err != nil || rows[signin.SetupSetting] != auth.HashToken(fresh) {
		t.Errorf("rows %v, %v", rows, err)
	}
	for _, wrong := range []string{"", token, fresh + "x"} {
		if _, err := r.NewOwner(t.Context(), wrong, "ada", password, "192.0.2.1", false); !errors.Is(err, signin.ErrSetupToken) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	u, err := r.NewOwner(t.Context(), fresh, "ada", password, "192.0.2.1", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Claim(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the spent token is still there: %v", err)
	}
	if _, err := r.NewOwner(t.Context(), fresh, "eve", password, "192.0.2.1", false); !errors.Is(err, store.ErrClaimed) {
		t.Errorf("a second claim: %v", err)
	}
	if err := os.WriteFile(file, []byte(fresh), 0o600); err != nil {
		t.Fatal(err)
	}
	r.prepare(file, false)
	if _, err := r.signIn("ada", password, "192.0.2.1"); err != nil {
		t.Error(err)
	}
	if strings.Contains(r.log.String(), fresh) {
		t.Error("the setup token is in the log")
	}
}

func TestOnlyOneClaimWins(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	token := r.prepare(filepath.Join(t.TempDir(), "setup-token"), true)
	var won, lost atomic.Int32
	var wg sync.WaitGroup
	for _, name := range []string{"ada", "bob", "cyd", "dan"} {
		wg.Go(func() {
			u, err := r.NewOwner(t.Context(), token, name, password, "192.0.2.1", false)
			if err == nil {
				_, err = r.Claim(t.Context(), u)
			}
			switch {
			case err == nil:
				won.Add(1)
			case errors.Is(err, store.ErrClaimed):
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	users, err := r.store.Users(t.Context())
	if err != nil || len(users) != 1 || won.Load() != 1 || lost.Load() != 3 {
		t.Errorf("%d won, %d lost, users %+v, %v", won.Load(), lost.Load(), users, err)
	}
}

// Strangers who guess at the setup token do not keep the owner from claiming.
func TestGuessesAtTheSetupTokenHoldUpTheGuesserAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	token := r.prepare(filepath.Join(t.TempDir(), "setup-token"), true)
	var many signin.TooManyError
	for i := range 9 {
		_, err := r.NewOwner(t.Context(), "zoosetup_guess", "eve", password, "192.0.2.1", false)
		if i < 8 != errors.Is(err, signin.ErrSetupToken) || i == 8 && !errors.As(err, &many) {
			t.Errorf("guess %d: %v", i, err)
		}
	}
	if _, err := r.NewOwner(t.Context(), token, "ada", password, "198.51.100.7", false); err != nil {
		t.Error(err)
	}
	if _, err := r.NewOwner(t.Context(), "", "ada", password, "local", true); err != nil {
		t.Errorf("the machine's owner needs no token: %v", err)
	}
}
