package github

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// GitHub's names of the two quotas that this package spends.
const (
	quotaCore         = "core"
	quotaRegistration = "actions_runner_registration"
)

// limitFrom reads an answer for a request to wait. GitHub states three things, any of which may be missing: retry-after,
// an exhausted quota with its reset, and a message about the secondary limit. When several are there the latest
// instant counts, because the earlier one would only buy the next refusal. nil means that nobody asked us to wait.
func limitFrom(a answer, quota string, now time.Time) *LimitError {
	if a.status != http.StatusForbidden && a.status != http.StatusTooManyRequests {
		return nil
	}
	var limit *LimitError
	later := func(until time.Time, format string, args ...any) {
		if limit == nil || until.After(limit.Until) {
			limit = &LimitError{Until: until, Reason: fmt.Sprintf(format, args...)}
		}
	}
	if wait, said := retryAfter(a.header.Get("Retry-After"), now); said {
		later(now.Add(wait), "secondary limit, asked to wait %s", wait)
	}
	if a.header.Get("X-RateLimit-Remaining") == "0" {
		later(resetOf(a.header.Get("X-RateLimit-Reset"), now), "the %s quota is used up", quota)
	}
	if limit == nil {
		switch text := strings.ToLower(a.message + " " + a.docs); {
		case strings.Contains(text, "secondary rate limit"), strings.Contains(text, "secondary-rate-limit"), strings.Contains(text, "abuse"):
			later(now.Add(SecondaryFallback), "secondary limit")
		case strings.Contains(text, "rate limit exceeded"):
			later(now.Add(HoldFallback), "the %s quota is used up", quota)
		case a.status == http.StatusTooManyRequests:
			later(now.Add(SecondaryFallback), "too many requests")
		default:
			return nil
		}
	}
	limit.Until = capHold(limit.Until, now)
	return limit
}

// retryAfter reads a Retry-After header: seconds or an HTTP date. A value that is neither, or not in the future, still
// says that we must wait; then GitHub's documented minute applies.
func retryAfter(v string, now time.Time) (wait time.Duration, said bool) {
	if v == "" {
		return 0, false
	}
	if s, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
		if s > 0 {
			return time.Duration(min(s, int64(MaxHold/time.Second))) * time.Second, true
		}
	} else if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return at.Sub(now), true
	}
	return SecondaryFallback, true
}

// resetOf reads x-ratelimit-reset, in seconds since 1970. A reset that has passed by our clock means that the clocks
// differ a little, so a minute will do; one that cannot be read says nothing.
func resetOf(v string, now time.Time) time.Time {
	s, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
	if err != nil || s <= 0 || s > 1<<40 {
		return now.Add(HoldFallback)
	}
	if at := time.Unix(s, 0); at.After(now) {
		return at
	}
	return now.Add(SecondaryFallback)
}

// refusals remembers, for one client and so for one installation, which quota GitHub refused and until when. A call
// that is sure to be refused is answered from here: calls made while limited lengthen the limit.
// (go-github has such a memory too, but its books mix the two quotas and read the system clock; transport.go hides the
// headers that would feed it.)
type refusals struct {
	mu    sync.Mutex
	until map[string]LimitError // by quota; "" is every quota
}

func (r *refusals) note(quota string, l LimitError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil {
		r.until = map[string]LimitError{}
	}
	r.until[quota] = l
}

// check returns the limit that forbids spending quota now, or nil.
func (r *refusals) check(quota string, now time.Time) *LimitError {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, q := range []string{"", quota} {
		if l, ok := r.until[q]; ok && Held(now, l.Until) {
			return &LimitError{Until: l.Until, Reason: l.Reason}
		}
	}
	return nil
}
