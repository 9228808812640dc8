package signin

import (
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// How many failures are borne. Each account and each address may fail so often at once, and again once in a while. An address that
// has signed in to an account has a budget of its own for it, so that strangers who fail do not lock its owner out.
const (
	failuresAtOnce = 8
	failureEvery   = 30 * time.Second
	remembered     = 10_000 // accounts, addresses and pairs of them
)

// limits counts attempts before they are judged, and takes back those that succeed: of many at the same time no more are judged
// than one after the other.
type limits struct {
	now   func() time.Time
	mu    sync.Mutex
	spent *simplelru.LRU[string, *budget]
	known *simplelru.LRU[string, struct{}] // accounts and the addresses from which they signed in
}

// budget is a bucket that failures fill and time empties.
type budget struct {
	failures float64
	at       time.Time
}

func newLimits(now func() time.Time) *limits {
	spent, _ := simplelru.NewLRU[string, *budget](remembered, nil) // fails for sizes below one only
	known, _ := simplelru.NewLRU[string, struct{}](remembered, nil)
	return &limits{now: now, spent: spent, known: known}
}

// try counts an attempt at name from address, or says how long none may be made. Without a name the address alone counts. The
// function takes the attempt back: it succeeded.
func (l *limits) try(name, address string) (succeeded func(), wait time.Duration) {
	address = network(address)
	l.mu.Lock()
	defer l.mu.Unlock()
	budgets := l.budgets(name, address)
	for _, b := range budgets {
		if over := b.failures + 1 - failuresAtOnce; over > 0 {
			wait = max(wait, time.Duration(over*float64(failureEvery)))
		}
	}
	if wait > 0 {
		return nil, wait
	}
	for _, b := range budgets {
		b.failures++
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, b := range budgets {
			b.failures = max(0, b.failures-1)
		}
		if name != "" {
			l.known.Add(pair(name, address), struct{}{})
		}
	}, 0
}

// knows takes note that the account is used from the address.
func (l *limits) knows(name, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.Add(pair(name, network(address)), struct{}{})
}

// budgets are those that a failure of name from address counts against, as they are now.
func (l *limits) budgets(name, address string) []*budget {
	keys := []string{"address\x00" + address}
	switch {
	case name == "":
	case l.known.Contains(pair(name, address)):
		keys = []string{"pair\x00" + pair(name, address)}
	default:
		keys = append(keys, "account\x00"+name)
	}
	now := l.now()
	out := make([]*budget, len(keys))
	for i, k := range keys {
		b, ok := l.spent.Get(k)
		if !ok {
			b = &budget{at: now}
			l.spent.Add(k, b)
		}
		b.failures = max(0, b.failures-float64(now.Sub(b.at))/float64(failureEvery))
		b.at = now
		out[i] = b
	}
	return out
}

func pair(name, address string) string { return name + "\x00" + address }

// network is what one client can choose its address from: of IPv6 the first half, of IPv4 the address itself.
func network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	p, _ := a.Prefix(64) // an IPv6 address has so many bits
	return p.String()
}
