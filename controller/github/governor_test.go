package github

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestGovernorsConstantsStayBelowGitHubs(t *testing.T) {
	t.Parallel()
	if MintsPerMinute+Concurrency >= 180 {
		t.Error("mints let go but not yet sent could add up to GitHub's limit")
	}
	if Concurrency >= 100 {
		t.Error("GitHub refuses the hundredth concurrent call")
	}
}

// No trailing minute ever sees more than the limit, nobody waits without need, and turns are taken in order.
func TestGovernorProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 6).Draw(rt, "limit")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 45), 1, 25).Draw(rt, "pauses") // seconds between arrivals
		impatient := rapid.SliceOfN(rapid.IntRange(0, 3), len(pauses), len(pauses)).Draw(rt, "impatient")
		type grant struct {
			who int
			at  time.Time
		}
		var grants []grant
		arrived := make([]time.Time, len(pauses))
		refused := make([]bool, len(pauses))
		synctest.Test(t, func(t *testing.T) {
			g := NewGovernor(limit, time.Now)
			var mu sync.Mutex
			var wg sync.WaitGroup
			for i, p := range pauses {
				<-time.After(time.Duration(p) * time.Second) // the bubble's clock
				arrived[i] = time.Now()
				wg.Go(func() {
					ctx := t.Context()
					if impatient[i] == 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, 20*time.Second+time.Millisecond)
						defer cancel()
					}
					err := g.Wait(ctx)
					mu.Lock()
					defer mu.Unlock()
					refused[i] = err != nil
					if err == nil {
						grants = append(grants, grant{i, time.Now()})
					}
				})
				synctest.Wait()
			}
			wg.Wait()
		})
		for i, g := range grants {
			if i > 0 && grants[i-1].who > g.who {
				rt.Fatalf("%d went before %d", grants[i-1].who, g.who)
			}
			if i >= limit && g.at.Sub(grants[i-limit].at) < time.Minute {
				rt.Fatalf("grants %d and %d are %s apart", i-limit, i, g.at.Sub(grants[i-limit].at))
			}
			if !g.at.Equal(arrived[g.who]) { // it waited: then the window was full until this instant
				if i < limit || !g.at.Equal(grants[i-limit].at.Add(time.Minute)) {
					rt.Fatalf("%d waited from %s to %s without need", g.who, arrived[g.who], g.at)
				}
			}
		}
		for i, r := range refused {
			if r && impatient[i] != 0 {
				rt.Fatalf("%d was refused without having left", i)
			}
		}
	})
}

func TestGovernorAllowsAFullBurstThenWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(0, time.Now)
		start := time.Now()
		for range MintsPerMinute {
			if err := g.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if time.Since(start) != 0 {
			t.Errorf("the burst took %s", time.Since(start))
		}
		_ = g.Wait(t.Context())
		if time.Since(start) != time.Minute {
			t.Errorf("the next came after %s", time.Since(start))
		}
	})
}

func TestGovernorCapsCallsInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(0, time.Now)
		var running, most, done atomic.Int32
		for range 100 {
			go func() {
				_ = g.Do(t.Context(), func(context.Context) error {
					n := running.Add(1)
					for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
					}
					<-time.After(time.Second)
					running.Add(-1)
					done.Add(1)
					return nil
				})
			}()
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if most.Load() != Concurrency || done.Load() != 100 {
			t.Errorf("at most %d at once, %d done", most.Load(), done.Load())
		}
	})
}

func TestGovernorLetsALeaverGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewGovernor(1, time.Now)
		_ = g.Wait(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { left <- g.Do(ctx, func(context.Context) error { t.Error("minted"); return nil }) }()
		go func() { left <- g.Wait(ctx) }()
		synctest.Wait()
		cancel()
		for range 2 {
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
		}
		start := time.Now()
		_ = g.Wait(t.Context())
		if time.Since(start) != time.Minute {
			t.Errorf("those who left were counted: waited %s", time.Since(start))
		}
		if err := g.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestGovernorSurvivesAClockSetBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var back time.Duration
		g := NewGovernor(1, func() time.Time { return time.Now().Add(-back) })
		_ = g.Wait(t.Context())
		back = 5 * time.Hour
		start := time.Now()
		_ = g.Wait(t.Context())
		if waited := time.Since(start); waited != time.Minute {
			t.Errorf("waited %s", waited)
		}
	})
}
