// Package providertest is the suite that every provider.Provider passes: each sentence of the
// contract, in a world that loses answers, lies late, and lets others in. It must never know how
// a provider works: it sees the calls of the contract, and the world through a harness.
package providertest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// T is what a case reports to. A *testing.T is one; Try has another, so that the suite itself can be tested.
type T interface {
	Helper()
	Context() context.Context
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Skipf(format string, args ...any)
	Cleanup(do func())
}

// Harness is what a provider's own test gives the suite: New makes a world of its own, without machines, each time it is called.
type Harness struct {
	New func(t T) World
}

// Case is one promise of the contract.
type Case struct {
	Name string
	run  func(r *rig)
}

// Cases are all cases, in the order in which a new provider might pass them.
func Cases() []Case {
	return slices.Concat(lifeCases, allocateCases, lookCases, createCases, deleteCases, foreignCases, settleCases, troubleCases, imageCases)
}

// Run runs the suite. A case whose knobs the harness lacks is skipped with the reason.
func Run(t *testing.T, h Harness) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.run(start(t, h))
		})
	}
}

// Try runs the cases with a word in their name (all when it is empty) without failing anything. It returns what each that fails says first,
// and why those skipped are. With it a provider's own test can show that the suite sees what it breaks.
func Try(ctx context.Context, word string, h Harness) (failed, skipped map[string]string) {
	failed, skipped = map[string]string{}, map[string]string{}
	for _, c := range Cases() {
		if !strings.Contains(c.Name, word) {
			continue
		}
		rec := &recorder{ctx: ctx}
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer rec.clean()
			defer func() {
				if p := recover(); p != nil {
					rec.Errorf("panic: %v", p)
				}
			}()
			c.run(start(rec, h))
		}()
		<-done
		if len(rec.errs) > 0 {
			failed[c.Name] = rec.errs[0]
		}
		if rec.skip != "" {
			skipped[c.Name] = rec.skip
		}
	}
	return failed, skipped
}

// recorder is a T that writes down.
type recorder struct {
	ctx context.Context

	mu    sync.Mutex
	errs  []string
	skip  string
	clear []func()
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Logf(string, ...any)      {}
func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.errs = append(r.errs, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) {
	r.skip = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Cleanup(do func()) { r.clear = append(r.clear, do) }

func (r *recorder) clean() {
	for _, do := range slices.Backward(r.clear) {
		do()
	}
}
