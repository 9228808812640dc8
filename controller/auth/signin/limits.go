package signin

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// How many failures are borne. Each account and each address may fail so often at once, and again once in a while. An address that
// has signed in to an account has a budget of its own for it, so that strangers who fail do not lock its owner out.
const (
	failuresAtOnce = 8
	failureEvery   = 30 * time.Second
	remembered     = 10_000 // accounts, addresses and pairs of them
)

type limits struct {
	now   func() time.Time
	mu    sync.Mutex
	spent *simplelru.LRU[string, *rate.Limiter]
	known *simplelru.LRU[string, struct{}] // accounts and the addresses from which they signed in
}

func newLimits(now func() time.Time) *limits {
	spent, _ := simplelru.NewLRU[string, *rate.Limiter](remembered, nil) // fails for sizes below one only
	known, _ := simplelru.NewLRU[string, struct{}](remembered, nil)
	return &limits{now: now, spent: spent, known: known}
}

// budgets are those that a failure of name from address counts against.
func (l *limits) budgets(name, address string) []*rate.Limiter {
	pair := name + "\x00" + address
	keys := []string{"address\x00" + address, "account\x00" + name}
	if l.known.Contains(pair) {
		keys = []string{"pair\x00" + pair}
	}
	out := make([]*rate.Limiter, len(keys))
	for i, k := range keys {
		b, ok := l.spent.Get(k)
		if !ok {
			b = rate.NewLimiter(rate.Every(failureEvery), failuresAtOnce)
			l.spent.Add(k, b)
		}
		out[i] = b
	}
	return out
}

// wait is how long name must not be tried from address; 0 when it may be now.
func (l *limits) wait(name, address string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var longest time.Duration
	for _, b := range l.budgets(name, address) {
		if missing := 1 - b.TokensAt(l.now()); missing > 0 {
			longest = max(longest, time.Duration(missing*float64(failureEvery)))
		}
	}
	return longest
}

func (l *limits) failed(name, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range l.budgets(name, address) {
		b.AllowN(l.now(), 1)
	}
}

func (l *limits) succeeded(name, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.Add(name+"\x00"+address, struct{}{})
}
