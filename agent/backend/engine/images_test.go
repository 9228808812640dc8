package engine

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

func TestAnImageThatWasSeenIsNotAskedForAgainSoon(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	i := &Images{Now: func() time.Time { return now }}
	looks, pulls, there := 0, 0, true
	prepare := func(policy string) error {
		return i.Prepare("img", policy, func() (bool, error) { looks++; return there, nil },
			func() error { return i.Pull("img", func() error { pulls++; return nil }) })
	}
	for _, step := range []struct {
		name         string
		policy       string
		after        time.Duration
		there        bool
		looks, pulls int
		missing      bool
	}{
		{"first", backend.PullMissing, 0, true, 1, 0, false},
		{"soon", backend.PullMissing, 59 * time.Second, false, 1, 0, false},
		{"always", backend.PullAlways, 0, false, 1, 1, false},
		{"pulled", backend.PullNever, time.Second, false, 1, 1, false},
		{"later", backend.PullNever, time.Minute, false, 2, 1, true},
		{"missing", backend.PullMissing, 0, false, 3, 2, false},
	} {
		now, there = now.Add(step.after), step.there
		err := prepare(step.policy)
		if errors.Is(err, backend.ErrImage) != step.missing || looks != step.looks || pulls != step.pulls {
			t.Errorf("%s: %v, %d looks, %d pulls", step.name, err, looks, pulls)
		}
	}
}

func TestAFailedPullBlamesTheImageOnlyWhenItsRegistryAnswered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err   error
		image bool
	}{
		{errors.New("denied"), true}, {backend.ErrUnavailable, false}, {context.Canceled, false}, {context.DeadlineExceeded, false},
	} {
		i := &Images{Now: time.Now}
		if err := i.Pull("img", func() error { return c.err }); !errors.Is(err, c.err) || errors.Is(err, backend.ErrImage) != c.image {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}
