package main

import (
	"math"
	"slices"
	"time"
)

// spread is what several measurements of one thing came to, in milliseconds.
type spread struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	N   int     `json:"n"`
}

func spreadOf(ds []time.Duration) spread {
	if len(ds) == 0 {
		return spread{}
	}
	s := slices.Sorted(slices.Values(ds))
	return spread{P50: millis(rank(s, 0.50)), P95: millis(rank(s, 0.95)), P99: millis(rank(s, 0.99)), N: len(s)}
}

// rank is the q-quantile of sorted values by nearest rank: always one that was measured.
func rank[T any](sorted []T, q float64) T {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// millis is a duration in milliseconds, to the microsecond.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// ratio is a/b to three places, 0 when there is no b.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return round(a/b, 3)
}

// rate is how often a second, to one place.
func rate(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return round(float64(n)/d.Seconds(), 1)
}

func round(x float64, places int) float64 {
	p := math.Pow10(places)
	return math.Round(x*p) / p
}
