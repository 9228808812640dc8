package store_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

const putSetting = "INSERT INTO settings (key, value, updated_at) VALUES (?, '', 0)"

// gather holds the writer busy, starts the writes, waits until all of them queue, and lets go: so
// they make one group, in the order given. It returns what each write returned.
func gather(t *testing.T, s *store.Store, writes ...func() error) []error {
	t.Helper()
	hold, held := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := s.Write(context.Background(), func(func(string, ...any) error) error {
			close(held)
			<-hold
			return nil
		}); err != nil {
			t.Error(err)
		}
	})
	<-held
	errs := make([]error, len(writes))
	for i, w := range writes {
		wg.Go(func() { errs[i] = w() })
		for s.Queued() < i+1 {
			runtime.Gosched()
		}
	}
	close(hold)
	wg.Wait()
	return errs
}

// put writes one setting, then does more.
func put(s *store.Store, key string, more func() error) func() error {
	return func() error {
		return s.Write(context.Background(), func(exec func(string, ...any) error) error {
			if err := exec(putSetting, key); err != nil {
				return err
			}
			if more != nil {
				return more()
			}
			return nil
		})
	}
}

// have returns the keys of the settings.
func have(t *testing.T, s *store.Store) map[string]string {
	t.Helper()
	m, err := s.Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestConcurrentWritersShareOneCommit(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	const n = 64
	var writes []func() error
	for i := range n {
		writes = append(writes, put(s, fmt.Sprint(i), nil))
	}
	before := s.Commits()
	for i, err := range gather(t, s, writes...) {
		if err != nil {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if got := s.Commits() - before; got != 2 { // the one that held the writer, and the group
		t.Errorf("%d writes took %d commits, want 2", n, got)
	}
	if got := len(have(t, s)); got != n {
		t.Errorf("%d of %d writes are there", got, n)
	}
}

func TestALoneWriterCommitsByItself(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	before := s.Commits()
	for i := range 3 {
		if err := put(s, fmt.Sprint(i), nil)(); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Commits() - before; got != 3 {
		t.Errorf("3 writes one after the other took %d commits", got)
	}
}

func TestOneWriteThatFailsUndoesOnlyItself(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	boom := errors.New("boom")
	errs := gather(t, s,
		put(s, "a", nil),
		put(s, "failing", func() error { return boom }),
		put(s, "a", nil), // breaks a constraint
		put(s, "b", nil),
	)
	if errs[0] != nil || !errors.Is(errs[1], boom) || errs[2] == nil || errs[3] != nil {
		t.Errorf("got %v", errs)
	}
	got := have(t, s)
	if _, there := got["failing"]; there || len(got) != 2 {
		t.Errorf("left behind: %v", got)
	}
	if err := put(s, "alone", func() error { return boom })(); !errors.Is(err, boom) {
		t.Error(err)
	}
	if _, there := have(t, s)["alone"]; there {
		t.Error("a lone write that failed left its row")
	}
}

func TestOneWriteThatPanicsHurtsOnlyItsCaller(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	var caught any
	errs := gather(t, s,
		put(s, "a", nil),
		func() error {
			defer func() { caught = recover() }()
			return put(s, "panicking", func() error { panic("ouch") })()
		},
		put(s, "b", nil),
	)
	if errs[0] != nil || errs[2] != nil {
		t.Errorf("the others failed: %v", errs)
	}
	if text, _ := caught.(string); !strings.Contains(text, "ouch") || !strings.Contains(text, "write_test.go") {
		t.Errorf("its caller caught %v, want the panic with its stack", caught)
	}
	if got := have(t, s); len(got) != 2 {
		t.Errorf("left behind: %v", got)
	}
}

func TestAWriteCancelledUnderWayIsNotTorn(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	running, cancel := context.WithCancel(t.Context())
	defer cancel()
	errs := gather(t, s,
		put(s, "a", nil),
		func() error {
			return s.Write(running, func(exec func(string, ...any) error) error {
				cancel()
				return exec(putSetting, "running")
			})
		},
		put(s, "b", nil),
	)
	for i, err := range errs {
		if err != nil {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if got := have(t, s); len(got) != 3 {
		t.Errorf("got %v, want a, running, b", got)
	}
	if err := s.Write(running, func(func(string, ...any) error) error { t.Error("ran"); return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a write that was cancelled before it began: %v", err)
	}
}

func TestACancelledWriteThatWaitsReturnsAtOnceAndNeverRuns(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	ctx, cancel := context.WithCancel(t.Context())
	// The writer is busy until the waiting write has returned: if it waited, nothing would end.
	err := s.Write(t.Context(), func(exec func(string, ...any) error) error {
		waiting := make(chan error)
		go func() {
			waiting <- s.Write(ctx, func(exec func(string, ...any) error) error { return exec(putSetting, "waiting") })
		}()
		for s.Queued() < 1 {
			runtime.Gosched()
		}
		cancel()
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Errorf("the waiting write returned %v", err)
		}
		return exec(putSetting, "a")
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := put(s, "b", nil)(); err != nil {
		t.Fatal(err)
	}
	if got := have(t, s); len(got) != 2 {
		t.Errorf("got %v, want a and b", got)
	}
}

// The database rolls a whole transaction back on some errors (a full disk). Who had run must hear
// of it, who had not must not suffer.
func TestATransactionThatBreaksFailsThoseInItAndNoOthers(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	breaking := func() error {
		return s.Write(context.Background(), func(exec func(string, ...any) error) error {
			if err := exec("ROLLBACK"); err != nil {
				return err
			}
			return errors.New("disk full")
		})
	}
	errs := gather(t, s, put(s, "before", nil), breaking, put(s, "after", nil))
	if errs[0] == nil || errs[1] == nil || errs[2] != nil {
		t.Errorf("got %v, want two failures and a success", errs)
	}
	got := have(t, s)
	if _, there := got["after"]; !there || len(got) != 1 {
		t.Errorf("got %v, want what came after alone", got)
	}
}

// Everybody's write must be there once, whoever led it.
func TestManyWritersAtOnce(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	const writers, each = 16, 25
	before := s.Commits()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				key := fmt.Sprintf("%d.%d", w, i)
				if err := s.SetSetting(context.Background(), key, "x"); err != nil {
					t.Errorf("%s: %v", key, err)
				}
				if m, err := s.Settings(context.Background()); err != nil || m[key] != "x" {
					t.Errorf("%s was written and is not there (%v)", key, err)
				}
			}
		})
	}
	wg.Wait()
	if got := len(have(t, s)); got != writers*each {
		t.Errorf("%d of %d writes are there", got, writers*each)
	}
	t.Logf("%d writes took %d commits", writers*each, s.Commits()-before)
}
