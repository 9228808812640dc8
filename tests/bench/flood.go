package main

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// flood calls send from n senders at once, each one after the other's answer, until long has passed or limit calls were made.
// It returns how long that took until the last answer, and how long each call did.
func flood(ctx context.Context, n int, long time.Duration, limit int64, send func(ctx context.Context, job int64, step int) error) (time.Duration, []time.Duration, error) {
	g, ctx := errgroup.WithContext(ctx)
	each := make([][]time.Duration, n)
	var jobs atomic.Int64
	began := time.Now()
	for i := range n {
		g.Go(func() error {
			for {
				job := jobs.Add(1)
				for step := range steps {
					if job*steps > limit || time.Since(began) >= long {
						return nil
					}
					at := time.Now()
					if err := send(ctx, job, step); err != nil {
						return err
					}
					each[i] = append(each[i], time.Since(at))
				}
			}
		})
	}
	err := g.Wait()
	return time.Since(began), slices.Concat(each...), err
}
