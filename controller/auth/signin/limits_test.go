package signin_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
)

// fails fails to sign in so often, and returns after how many it was stopped and for how long.
func (r *rig) fails(name, address string, most int) (int, time.Duration) {
	r.t.Helper()
	for i := range most {
		_, err := r.signIn(name, strings.Repeat("x", signin.MaxPassword+1), address) // which fails without a hash
		if many, ok := errors.AsType[signin.TooManyError](err); ok {
			return i, many.RetryAfter
		} else if !errors.Is(err, signin.ErrPassword) {
			r.t.Fatal(err)
		}
	}
	return most, 0
}

func TestOneAddressFailsOnlySoOften(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if n, wait := r.fails("ada", "192.0.2.1", 20); n != 8 || wait != 30*time.Second {
		t.Errorf("stopped after %d for %s", n, wait)
	}
	if n, _ := r.fails("bob", "192.0.2.1", 20); n != 0 {
		t.Errorf("another account, the same address: stopped after %d", n)
	}
	r.clock.step(30 * time.Second)
	if n, _ := r.fails("bob", "192.0.2.1", 20); n != 1 {
		t.Errorf("half a minute later: stopped after %d", n)
	}
	// Of IPv6 a client has a whole network to choose from.
	total := 0
	for i := range 20 {
		n, _ := r.fails(fmt.Sprint("user", i), fmt.Sprintf("2001:db8::%x", i+1), 1)
		total += n
	}
	if total != 8 {
		t.Errorf("an IPv6 network failed %d times", total)
	}
}

func TestOneAccountFailsOnlySoOftenFromAnywhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.user("ada")
	const home = "198.51.100.7"
	if _, err := r.signIn("ada", password, home); err != nil {
		t.Fatal(err)
	}
	total := 0
	for i := range 30 {
		n, _ := r.fails("ada", fmt.Sprintf("192.0.2.%d", i), 1)
		total += n
	}
	if total != 8 {
		t.Errorf("strangers failed %d times", total)
	}
	var many signin.TooManyError
	if _, err := r.signIn("ada", password, "203.0.113.1"); !errors.As(err, &many) {
		t.Errorf("the right password from a new address: %v", err)
	}
	if _, err := r.signIn("ada", password, home); err != nil {
		t.Errorf("strangers locked the owner out: %v", err)
	}
	if n, _ := r.fails("ada", home, 20); n != 8 {
		t.Errorf("a known address failed %d times", n)
	}
}

// Attempts that come together must not all be judged before the first of them counts.
func TestAttemptsAtOnceAreCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.user("ada")
	var judged int
	var mu sync.Mutex
	r.CountChecks(func(string) {
		mu.Lock()
		defer mu.Unlock()
		judged++
	})
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() { _, _ = r.SignIn(t.Context(), "ada", "wrong password", "192.0.2.1", "") })
	}
	wg.Wait()
	if judged != 8 {
		t.Errorf("%d of 30 guesses were judged", judged)
	}
}

func TestWhoSucceedsSpendsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.user("ada")
	for i := range 12 {
		if _, err := r.signIn("ada", password, "192.0.2.1"); err != nil {
			t.Fatalf("sign-in %d: %v", i, err)
		}
	}
}
