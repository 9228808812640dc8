// Package contract holds tests to GitHub's own description of itself: the OpenAPI description of the REST
// API and the JSON schemas of the webhooks, which npm installs into node_modules beside this file.
//
// It is for tests only, and never skips: without the descriptions a test fails and says how to get them.
package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// ErrMissing is the error of descriptions that are not installed.
var ErrMissing = errors.New("GitHub's descriptions are not installed: run make contract")

// read reads a file of node_modules, found from the module's root.
func read(name string) ([]byte, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("cannot find the module's root: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil, errors.New("cannot find the module's root: no go.mod above the working directory")
		}
		dir = up
	}
	b, err := os.ReadFile(filepath.Join(dir, "tests", "contract", "node_modules", "@octokit", filepath.FromSlash(name)))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w (%s)", ErrMissing, name)
	} else if err != nil {
		return nil, fmt.Errorf("cannot read GitHub's description: %w", err)
	}
	return b, nil
}

// Examples are GitHub's own example payloads of a webhook event.
func Examples(tb testing.TB, event string) [][]byte {
	tb.Helper()
	raw, err := read("webhooks-examples/api.github.com/index.json")
	if err != nil {
		tb.Fatal(err)
	}
	var all []struct {
		Name     string            `json:"name"`
		Examples []json.RawMessage `json:"examples"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		tb.Fatalf("cannot parse the example webhooks: %v", err)
	}
	var out [][]byte
	for _, e := range all {
		if e.Name == event {
			for _, x := range e.Examples {
				out = append(out, x)
			}
		}
	}
	return out
}
