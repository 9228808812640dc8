package main

import (
	"testing"
	"time"
)

func TestSpreadOf(t *testing.T) {
	t.Parallel()
	ms := func(n ...int) []time.Duration {
		var ds []time.Duration
		for _, i := range n {
			ds = append(ds, time.Duration(i)*time.Millisecond)
		}
		return ds
	}
	upTo := func(n int) []time.Duration {
		var ds []time.Duration
		for i := n; i >= 1; i-- { // backwards: the order must not matter
			ds = append(ds, time.Duration(i)*time.Millisecond)
		}
		return ds
	}
	for name, c := range map[string]struct {
		in   []time.Duration
		want spread
	}{
		"nothing":     {nil, spread{}},
		"one":         {ms(7), spread{7, 7, 7, 1}},
		"two":         {ms(9, 1), spread{1, 9, 9, 2}},
		"odd":         {ms(3, 1, 2), spread{2, 3, 3, 3}},
		"twenty":      {upTo(20), spread{10, 19, 20, 20}},
		"hundred":     {upTo(100), spread{50, 95, 99, 100}},
		"microsecond": {[]time.Duration{1500 * time.Nanosecond}, spread{0.001, 0.001, 0.001, 1}},
	} {
		if got := spreadOf(c.in); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestSpreadOfLeavesItsInputAlone(t *testing.T) {
	t.Parallel()
	in := []time.Duration{3, 1, 2}
	spreadOf(in)
	if in[0] != 3 || in[1] != 1 || in[2] != 2 {
		t.Errorf("the caller's slice was sorted: %v", in)
	}
}

func TestRatioAndRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ got, want float64 }{
		{ratio(1, 3), 0.333},
		{ratio(2, 0), 0},
		{rate(150, 2*time.Second), 75},
		{rate(1, 3*time.Second), 0.3},
		{rate(5, 0), 0},
	} {
		if c.got != c.want {
			t.Errorf("got %v, want %v", c.got, c.want)
		}
	}
}

func TestGoal(t *testing.T) {
	t.Parallel()
	for measured, met := range map[float64]bool{0.99: true, 1: true, 1.001: false} {
		if g := newGoal("x", 1, measured); g.Met != met {
			t.Errorf("%v of at most 1: met is %v", measured, g.Met)
		}
	}
}
