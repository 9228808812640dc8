package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// stubborn ends on the signals that it knows, and after the while that it takes.
type stubborn struct {
	endsOn map[string]time.Duration
	gone   bool
	ending time.Duration
	heard  []string
}

func (s *stubborn) Signal(_ context.Context, _, signal string) (bool, error) {
	s.heard = append(s.heard, signal)
	s.ending = s.endsOn[signal]
	return s.gone, nil
}

func (s *stubborn) Wait(ctx context.Context, _ string) error {
	if s.ending == 0 {
		s.ending = 1000 * time.Hour
	}
	select {
	case <-time.After(s.ending):
		return nil
	case <-ctx.Done():
		return errors.New("the request was cut off")
	}
}

func TestAStopAsksAndThenKills(t *testing.T) {
	t.Parallel()
	const grace = 200 * time.Millisecond
	for _, c := range []struct {
		name  string
		of    stubborn
		grace time.Duration
		heard []string
		took  time.Duration
		fails bool
	}{
		{"polite", stubborn{endsOn: map[string]time.Duration{"SIGINT": time.Millisecond}}, grace, []string{"SIGINT"}, time.Millisecond, false},
		{"deaf", stubborn{endsOn: map[string]time.Duration{"SIGKILL": time.Second}}, grace, []string{"SIGINT", "SIGKILL"}, grace + time.Second, false},
		{"no grace", stubborn{endsOn: map[string]time.Duration{"SIGKILL": time.Second}}, 0, []string{"SIGKILL"}, time.Second, false},
		{"gone", stubborn{gone: true}, grace, []string{"SIGINT"}, 0, false},
		{"undead", stubborn{}, grace, []string{"SIGINT", "SIGKILL"}, grace + KillLimit, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err := Stop(t.Context(), &c.of, "c1", "SIGINT", c.grace)
			if took := time.Since(began); (err != nil) != c.fails || took != c.took || !slices.Equal(c.of.heard, c.heard) {
				t.Errorf("%s: %v after %s, it heard %q", c.name, err, took, c.of.heard)
			}
		})
	}
}

func TestAStopIsGivenUpWithItsCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s := &stubborn{}
		if err := Stop(ctx, s, "c1", "SIGTERM", time.Hour); !errors.Is(err, context.DeadlineExceeded) || len(s.heard) != 1 {
			t.Errorf("%v, it heard %q", err, s.heard)
		}
	})
}

func TestALookEndsWithTheContainerOrItsCaller(t *testing.T) {
	t.Parallel()
	broken := errors.New("the engine is away")
	for _, c := range []struct {
		name  string
		looks int // until it has ended
		fails error
		limit time.Duration
		want  error
		took  time.Duration
	}{
		{"ended already", 1, nil, time.Hour, nil, 0},
		{"ends", 4, nil, time.Hour, nil, 3 * lookEvery},
		{"cannot be seen", 1, broken, time.Hour, broken, 0},
		{"goes on", 1 << 30, nil, time.Second + time.Millisecond, context.DeadlineExceeded, time.Second + time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			began, looked := time.Now(), 0
			err := Look(ctx, func() (bool, error) { looked++; return looked >= c.looks, c.fails })
			if took := time.Since(began); !errors.Is(err, c.want) || took != c.took {
				t.Errorf("%s: %v after %s and %d looks", c.name, err, took, looked)
			}
		})
	}
}
