package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
)

// profiled runs f, with a CPU profile of it in the folder that was asked for.
func (o options) profiled(part string, f func() error) (err error) {
	if o.profiles == "" {
		return f()
	}
	out, err := os.Create(filepath.Join(o.profiles, part+".pprof"))
	if err != nil {
		return fmt.Errorf("cannot write a profile: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if err := pprof.StartCPUProfile(out); err != nil {
		return fmt.Errorf("cannot write a profile: %w", err)
	}
	defer pprof.StopCPUProfile()
	return f()
}
