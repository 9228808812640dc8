// Package openapi holds the API to what was released of it.
package openapi

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

const (
	program   = "../../bin/apidiff"
	described = "../../docs/reference/openapi.yaml"
	released  = "../../docs/reference/openapi.released.yaml"
)

// breaking lists what a caller of one description cannot do with the other.
func breaking(t *testing.T, before, after string) []string {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("cannot compare the descriptions (run `make bin/apidiff` first): %v", err)
	}
	out, err := exec.CommandContext(t.Context(), program, before, after).Output()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.ExitCode() == 1:
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	case exit != nil:
		t.Fatalf("%v: %s", err, exit.Stderr)
	}
	t.Fatal(err)
	return nil
}

func read(t *testing.T, path string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// major is the part of a description's version that moves when something that worked no longer does.
func major(doc map[string]any) string {
	info, _ := doc["info"].(map[string]any)
	m, _, _ := strings.Cut(fmt.Sprint(info["version"]), ".")
	return m
}

// Callers of the released API are not broken, unless its major version says so.
func TestNothingReleasedIsBroken(t *testing.T) {
	t.Parallel()
	broken := breaking(t, released, described)
	if major(read(t, released)) != major(read(t, described)) {
		return
	}
	for _, b := range broken {
		t.Errorf("breaks callers: %s; keep it working, or move the major part of api.APIVersion", b)
	}
}

// The comparison itself notices what breaks callers, and lets the rest pass.
func TestBreakingChangesAreNoticed(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		edit   func(doc map[string]any)
		breaks bool
	}{
		{"nothing", func(map[string]any) {}, false},
		{"a route goes", func(d map[string]any) { delete(in(d, "paths"), "/api/v1/pools/{id}/pause") }, true},
		{"a field becomes required", func(d map[string]any) {
			s := in(d, "components", "schemas", "PoolPatch")
			s["required"] = []any{"max"}
		}, true},
		{"a field of an answer goes", func(d map[string]any) {
			s := in(d, "components", "schemas", "Pool")
			delete(in(s, "properties"), "paused")
			s["required"] = without(s["required"], "paused")
		}, true},
		{"a value is no longer taken", func(d map[string]any) {
			in(d, "components", "schemas", "PoolSpec", "properties", "backend")["enum"] = []any{"podman"}
		}, true},
		{"a new field of an answer", func(d map[string]any) {
			in(d, "components", "schemas", "Pool", "properties")["colour"] = map[string]any{"type": "string"}
		}, false},
		{"a new field of a request", func(d map[string]any) {
			in(d, "components", "schemas", "PoolPatch", "properties")["colour"] = map[string]any{"type": "string"}
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			doc := read(t, described)
			tt.edit(doc)
			raw, err := yaml.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "after.yaml")
			if err := os.WriteFile(path, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			if got := breaking(t, described, path); (len(got) > 0) != tt.breaks {
				t.Errorf("found %q", got)
			}
		})
	}
}

func in(doc map[string]any, keys ...string) map[string]any {
	for _, k := range keys {
		doc, _ = doc[k].(map[string]any)
	}
	return doc
}

func without(list any, word string) []any {
	var out []any
	all, _ := list.([]any)
	for _, v := range all {
		if v != word {
			out = append(out, v)
		}
	}
	return out
}
