package api

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

const (
	// flowLife is how long somebody may take to make an App: as long as GitHub's code lives.
	flowLife = time.Hour
	// maxFlows bounds those under way. The oldest goes first.
	maxFlows = 100
)

// flow is one run of the manifest flow. It lives in memory: what it leads to, the App, is in the store, and a controller that was
// restarted meanwhile adopts the App's installations without it.
type flow struct {
	state    string
	who      auth.Principal // who began it
	base     string         // of the GitHub
	public   string         // where the browser reaches the controller
	owner    string         // organisation; empty for a personal account
	manifest []byte
	expires  time.Time

	mu   sync.Mutex       // one page at a time
	made *github.NewApp   // exchanged, and not yet stored
	app  *store.GitHubApp // stored
}

// flows knows the flows under way, by their states: who knows one may go on with it.
type flows struct {
	now func() time.Time

	mu  sync.Mutex
	all map[string]*flow
}

func newFlows(now func() time.Time) *flows { return &flows{now: now, all: map[string]*flow{}} }

// begin adds a flow. Its state is what the caller puts into the manifest, so fill makes that.
func (f *flows) begin(x *flow, fill func(state string) ([]byte, error)) error {
	x.state, x.expires = rand.Text()+rand.Text(), f.now().Add(flowLife)
	var err error
	if x.manifest, err = fill(x.state); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[x.state] = x
	for len(f.all) > maxFlows {
		oldest := x
		for _, y := range f.all {
			if y.expires.Before(oldest.expires) {
				oldest = y
			}
		}
		delete(f.all, oldest.state)
	}
	return nil
}

// find returns a flow that is under way, or nil.
func (f *flows) find(state string) *flow {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	for key, x := range f.all {
		if !now.Before(x.expires) {
			delete(f.all, key)
		}
	}
	return f.all[state]
}
