package tree

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/zoomies-fleet/zoomies"

// goFile is what a checker needs of one Go file.
type goFile struct {
	name    string
	folder  string
	test    bool
	imports []string
	ast     *ast.File
}

func (s source) goFiles(t *testing.T) []goFile {
	t.Helper()
	var out []goFile
	for _, name := range s.ending(".go") {
		if strings.Contains(name, "/testdata/") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(s.root, name), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("cannot parse: %v", err)
		}
		f := goFile{name: name, folder: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), ast: parsed}
		for _, spec := range parsed.Imports {
			p, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			f.imports = append(f.imports, p)
		}
		out = append(out, f)
	}
	return out
}

// under says whether p is base or below it.
func under(p, base string) bool { return p == base || strings.HasPrefix(p, base+"/") }

// ours returns the folder of an import of this module.
func ours(p string) (string, bool) {
	if p == module {
		return ".", true
	}
	return strings.CutPrefix(p, module+"/")
}

func standard(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

func roomOf(folder string) (room, bool) {
	best, found := room{}, false
	for _, r := range rooms {
		if under(folder, r.folder) && len(r.folder) >= len(best.folder) {
			best, found = r, true
		}
	}
	return best, found
}

// checkRooms holds every file that is no test to its room's row.
func checkRooms(files []goFile) []string {
	var problems []string
	for _, f := range files {
		r, ok := roomOf(f.folder)
		if !ok {
			problems = append(problems, fmt.Sprintf("%s lies in no room: give its folder a row in tests/tree/rooms_test.go", f.name))
			continue
		}
		if f.test {
			continue
		}
		for _, p := range f.imports {
			folder, mine := ours(p)
			if !mine || under(folder, r.folder) || slices.Contains(r.allows, "*") ||
				slices.ContainsFunc(r.allows, func(a string) bool { return under(folder, a) }) {
				continue
			}
			problems = append(problems, fmt.Sprintf("%s imports %s, which %s may not: %s", f.name, folder, r.folder, r.why))
		}
	}
	return problems
}

// checkExclusive holds every file, tests too, to the libraries that have one home.
func checkExclusive(files []goFile) []string {
	var problems []string
	for _, f := range files {
		for _, p := range f.imports {
			for _, e := range exclusives {
				if under(p, e.library) && !slices.ContainsFunc(e.only, func(o string) bool { return under(f.folder, o) }) {
					problems = append(problems, fmt.Sprintf("%s imports %s, which is for %s only: %s", f.name, p, strings.Join(e.only, ", "), e.why))
				}
			}
		}
	}
	return problems
}

// checkFar follows imports between our packages.
func checkFar(files []goFile) []string {
	imports := map[string]map[string]bool{} // folder to what its packages import
	for _, f := range files {
		if f.test {
			continue
		}
		if imports[f.folder] == nil {
			imports[f.folder] = map[string]bool{}
		}
		for _, p := range f.imports {
			imports[f.folder][p] = true
		}
	}
	var problems []string
	for _, b := range fars {
		for _, start := range slices.Sorted(maps.Keys(imports)) {
			if !under(start, b.folder) {
				continue
			}
			if way := wayTo(imports, start, b.library); way != nil {
				problems = append(problems, fmt.Sprintf("%s reaches %s (%s): %s", start, b.library, strings.Join(way, " → "), b.why))
			}
		}
	}
	return problems
}

// wayTo returns the shortest chain of imports from a folder to a library.
func wayTo(imports map[string]map[string]bool, start, library string) []string {
	seen := map[string]bool{start: true}
	for queue := [][]string{{start}}; len(queue) > 0; queue = queue[1:] {
		way := queue[0]
		for _, p := range slices.Sorted(maps.Keys(imports[way[len(way)-1]])) {
			if under(p, library) {
				return append(slices.Clone(way), p)
			}
			if folder, mine := ours(p); mine && !seen[folder] {
				seen[folder] = true
				queue = append(queue, append(slices.Clone(way), folder))
			}
		}
	}
	return nil
}

// checkPure holds the planners to the standard library without the world.
func checkPure(files []goFile) []string {
	var problems []string
	for _, f := range files {
		for _, p := range pure {
			if f.test || !under(f.folder, p.folder) {
				continue
			}
			for _, i := range f.imports {
				if !standard(i) || slices.ContainsFunc(impure, func(b string) bool { return under(i, b) }) {
					problems = append(problems, fmt.Sprintf("%s imports %s: %s", f.name, i, p.why))
				}
			}
			for _, call := range clockCalls(f.ast) {
				problems = append(problems, fmt.Sprintf("%s asks the clock with time.%s: %s", f.name, call, p.why))
			}
		}
	}
	return problems
}

func clockCalls(f *ast.File) []string {
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == "time" && slices.Contains(clock, sel.Sel.Name) {
				out = append(out, sel.Sel.Name)
			}
		}
		return true
	})
	return out
}

func TestImports(t *testing.T) {
	t.Parallel()
	files := repository(t).goFiles(t)
	report(t, checkRooms(files))
	report(t, checkExclusive(files))
	report(t, checkFar(files))
	report(t, checkPure(files))
}

func TestRowsGiveReasons(t *testing.T) {
	t.Parallel()
	for _, r := range rooms {
		if r.why == "" {
			t.Errorf("the room %s has no reason", r.folder)
		}
	}
	for _, e := range exclusives {
		if e.why == "" || len(e.only) == 0 {
			t.Errorf("the library %s has no reason or no home", e.library)
		}
	}
	for _, b := range fars {
		if b.why == "" {
			t.Errorf("the ban of %s in %s has no reason", b.library, b.folder)
		}
	}
}

func TestImportsObject(t *testing.T) {
	t.Parallel()
	file := func(pkg string, imports ...string) string {
		text := "// Package " + pkg + " is planted.\npackage " + pkg + "\n"
		for _, i := range imports {
			text += "import _ " + strconv.Quote(i) + "\n"
		}
		return text
	}
	for _, tt := range []struct {
		name  string
		check func([]goFile) []string
		files map[string]string
		words []string
	}{
		{"the agent imports the controller", checkRooms, map[string]string{"agent/a.go": file("agent", module+"/controller/store")}, []string{"agent/a.go", "controller/store"}},
		{"a wire type imports a half", checkRooms, map[string]string{"agent/protocol/a.go": file("protocol", module+"/agent")}, []string{"agent/protocol"}},
		{"the simulation imports ours", checkRooms, map[string]string{"sim/github/a.go": file("github", module+"/controller/github")}, []string{"vendors"}},
		{"the controller imports the agent", checkRooms, map[string]string{"controller/a.go": file("controller", module+"/agent")}, []string{"controller may not"}},
		{"an undeclared room", checkRooms, map[string]string{"extras/a.go": file("extras")}, []string{"no room"}},
		{"SQL outside the store", checkExclusive, map[string]string{"controller/a_test.go": file("controller", "database/sql")}, []string{"database/sql", "controller/store only"}},
		{"Podman's bindings elsewhere", checkExclusive, map[string]string{"agent/a.go": file("agent", "github.com/containers/podman/v5/pkg/bindings")}, []string{"compile"}},
		{"tailscale elsewhere", checkExclusive, map[string]string{"agent/a.go": file("agent", "tailscale.com/tsnet")}, []string{"tunnel only"}},
		{
			"a far import", checkFar, map[string]string{
				"controller/a.go": file("controller", module+"/tunnel"),
				"tunnel/a.go":     file("tunnel", module+"/agent/backend/podman"),
				"agent/backend/podman/a.go": file("podman",
					"github.com/containers/podman/v5/pkg/bindings"),
			}, []string{"controller → tunnel → agent/backend/podman → github.com/containers"},
		},
		{"a library in the scheduler", checkPure, map[string]string{"controller/scheduler/a.go": file("scheduler", "golang.org/x/sync/errgroup")}, []string{"errgroup"}},
		{"a file in the scheduler", checkPure, map[string]string{"controller/scheduler/a.go": file("scheduler", "os/exec")}, []string{"os/exec"}},
		{"a clock in the scheduler", checkPure, map[string]string{"controller/scheduler/a.go": "package scheduler\nimport \"time\"\nvar x = time.Now\n"}, []string{"time.Now"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantOne(t, tt.check(plant(t, tt.files).goFiles(t)), tt.words...)
		})
	}
	t.Run("what is allowed", func(t *testing.T) {
		t.Parallel()
		files := plant(t, map[string]string{
			"controller/store/a.go":          file("store", "database/sql", module+"/controller/secrets"),
			"controller/a.go":                file("controller", module+"/agent/protocol", module+"/controller/store"),
			"controller/a_test.go":           file("controller", module+"/agent", "os"),
			"controller/scheduler/a.go":      "package scheduler\nimport (\"time\"; \"slices\")\nvar d time.Duration\nvar _ = slices.Sort[[]int]\n",
			"controller/scheduler/a_test.go": file("scheduler", "os"),
			"cmd/zoomies/a.go":               file("main", module+"/agent", "github.com/spf13/cobra"),
		}).goFiles(t)
		for _, check := range []func([]goFile) []string{checkRooms, checkExclusive, checkFar, checkPure} {
			report(t, check(files))
		}
	})
}
