package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// page is what a small commit writes.
const page = 4 << 10

// fsyncs appends a page to a file and syncs it, again and again for so long, and returns how long each took: what the disk
// allows whoever commits one thing at a time.
func fsyncs(ctx context.Context, long time.Duration) (took []time.Duration, err error) {
	f, err := os.CreateTemp("", "zoomies-bench-fsync-")
	if err != nil {
		return nil, fmt.Errorf("cannot measure the disk: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	buf := make([]byte, page)
	for began := time.Now(); time.Since(began) < long || len(took) == 0; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		at := time.Now()
		if _, err := f.Write(buf); err != nil {
			return nil, fmt.Errorf("cannot measure the disk: %w", err)
		}
		if err := f.Sync(); err != nil {
			return nil, fmt.Errorf("cannot measure the disk: %w", err)
		}
		took = append(took, time.Since(at))
	}
	return took, nil
}
