package github

import (
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Where the words of a limit point to; clients tell the kinds apart by these addresses.
const (
	docPrimary    = "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api"
	docSecondary  = docPrimary + "#about-secondary-rate-limits"
	secondaryText = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again. If you reach out to GitHub Support for help, please include the request ID."
)

// Loss says when a connection is dropped.
type Loss int

// A dropped answer leaves the client not knowing: only the server knows which of the two it was.
const (
	DropNever  Loss = iota
	DropBefore      // the request has no effect
	DropAfter       // the request has its effect, the answer is lost
)

// Fault is one thing that goes wrong. It hits requests that match Method, Path and Installation.
type Fault struct {
	Method       string // "" is any
	Path         string // below the REST root, * for one segment ("/orgs/*/actions/runners"); "" is any
	Installation int64  // only requests of this installation; 0 is any

	Skip  int // lets the first so many matches pass
	Times int // then hits so many; 0 is once, negative for ever
	Of    int // with Of n: hits the first Times of every n matches, for ever

	Delay  time.Duration // waits first
	Drop   Loss
	Status int // answers this in place of the real answer; the request has no effect
	Body   any // the answer's JSON
	Header http.Header
}

// Injection is a fault in place.
type Injection struct {
	s     *Server
	fault Fault
	seen  int
	hits  int
}

// Inject puts a fault in place. The first injected fault that matches a request and is due hits it.
func (s *Server) Inject(f Fault) *Injection {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := &Injection{s: s, fault: f}
	s.physics.faults = append(s.physics.faults, in)
	return in
}

// Hits is how many requests the fault has hit.
func (i *Injection) Hits() int {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	return i.hits
}

// Remove takes the fault away.
func (i *Injection) Remove() {
	i.s.mu.Lock()
	defer i.s.mu.Unlock()
	i.s.physics.faults = slices.DeleteFunc(i.s.physics.faults, func(x *Injection) bool { return x == i })
}

// faultFor finds the fault that hits a request. Called under mu.
func (s *Server) faultFor(method, urlPath string, installation int64) *Fault {
	for _, in := range s.physics.faults {
		f := &in.fault
		if f.Method != "" && !strings.EqualFold(f.Method, method) || f.Installation != 0 && f.Installation != installation {
			continue
		}
		if ok, err := path.Match(f.Path, urlPath); f.Path != "" && (err != nil || !ok) {
			continue
		}
		n := in.seen - f.Skip
		in.seen++
		times := f.Times
		if times == 0 {
			times = 1
		}
		if f.Of > 0 && n >= 0 {
			n %= f.Of
		}
		if n < 0 || times > 0 && n >= times {
			continue
		}
		in.hits++
		return f
	}
	return nil
}

func (f *Fault) answer() answer {
	a := answer{status: f.Status, body: f.Body, header: f.Header.Clone()}
	if raw, ok := f.Body.(string); ok {
		a.body = json.RawMessage(raw)
	}
	return a
}

// PrimaryLimit is a spent budget that comes back at reset: 403 and x-ratelimit-remaining 0.
func PrimaryLimit(method, pathPattern string, reset time.Time) Fault {
	return Fault{
		Method: method, Path: pathPattern, Status: http.StatusForbidden,
		Body: problem(http.StatusForbidden, "API rate limit exceeded for installation. If you reach out to GitHub Support for help, please include the request ID.", docPrimary).body,
		Header: http.Header{
			"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {strconv.FormatInt(reset.Unix(), 10)},
		},
	}
}

// SecondaryLimit is GitHub asking for patience: status 403 or 429, with retry-after unless wait is 0.
func SecondaryLimit(method, pathPattern string, status int, wait time.Duration) Fault {
	f := Fault{Method: method, Path: pathPattern, Status: status, Body: problem(status, secondaryText, docSecondary).body, Header: http.Header{}}
	if wait > 0 {
		f.Header.Set("Retry-After", strconv.Itoa(int((wait+time.Second-1)/time.Second)))
	}
	return f
}

// LostAnswer is a request that has its effect and whose answer never arrives.
func LostAnswer(method, pathPattern string) Fault {
	return Fault{Method: method, Path: pathPattern, Drop: DropAfter}
}

// Outage is GitHub answering 502 with its unicorn page's JSON form until the fault is removed.
func Outage(method, pathPattern string) Fault {
	return Fault{
		Method: method, Path: pathPattern, Times: -1, Status: http.StatusBadGateway,
		Body: problem(http.StatusBadGateway, "Server Error", docPrimary).body,
	}
}
