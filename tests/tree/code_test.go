package tree

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
)

// checkComments wants a comment on every package: what it is for.
func checkComments(files []goFile) []string {
	type pkg struct{ folder, name string }
	documented := map[pkg]bool{}
	product := map[string]bool{} // folders with more than tests
	for _, f := range files {
		if !f.test {
			product[f.folder] = true
		}
	}
	for _, f := range files {
		name := f.ast.Name.Name
		if f.test && (product[f.folder] || strings.HasSuffix(name, "_test")) {
			continue // a package's tests need no comment of their own
		}
		p := pkg{f.folder, name}
		if f.ast.Doc == nil {
			documented[p] = documented[p] || false
			continue
		}
		text := f.ast.Doc.Text()
		start := "Package " + name + " "
		if name == "main" {
			start = "Command " // its binary may have another name than its folder
		}
		documented[p] = documented[p] || strings.HasPrefix(text, start)
	}
	var problems []string
	for p, ok := range documented {
		if !ok {
			problems = append(problems, fmt.Sprintf("package %s in %s has no comment that begins with Package %s (a command's: Command …)", p.name, p.folder, p.name))
		}
	}
	slices.Sort(problems)
	return problems
}

// maxLines is where a file surely holds two ideas.
const maxLines = 600

// machineWritten are files that no person reads as a whole.
var machineWritten = []string{"go.sum", "package-lock.json", "openapi.yaml", "openapi.released.yaml", "rest.gen.go", "operations.gen.go", "cli.md"}

func checkLength(t *testing.T, s source) []string {
	t.Helper()
	var problems []string
	for _, name := range s.files {
		if slices.Contains(machineWritten, path.Base(name)) || strings.Contains(name, "testdata/") {
			continue
		}
		if n := strings.Count(s.text(t, name), "\n"); n > maxLines {
			problems = append(problems, fmt.Sprintf("%s has %d lines, more than %d: split it by idea", name, n, maxLines))
		}
	}
	return problems
}

// hosts are package registries. They are built from parts, so that this file names none.
var hosts = []string{
	"proxy.golang" + ".org", "sum.golang" + ".org", "deb.debian" + ".org", "security.debian" + ".org", "snapshot.debian" + ".org",
	"registry.npmjs" + ".org", "registry.yarnpkg" + ".com", "pypi" + ".org", "index.crates" + ".io",
}

// machinePath is where the project lies on one machine and nowhere else.
const machinePath = "/" + "work" + "/"

// checkPlaces finds what is true on one machine only: registries come from its configuration,
// and nothing downloads at run time.
func checkPlaces(t *testing.T, s source) []string {
	t.Helper()
	var problems []string
	for _, name := range s.files {
		text := s.text(t, name)
		for _, h := range hosts {
			if strings.Contains(text, h) {
				problems = append(problems, fmt.Sprintf("%s names the registry %s: the machine's own configuration says where packages come from", name, h))
			}
		}
		for rest := text; ; {
			i := strings.Index(rest, machinePath)
			if i < 0 {
				break
			}
			if i == 0 || !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-~*}/)", rune(rest[i-1])) {
				problems = append(problems, fmt.Sprintf("%s names a path of one machine: %s…", name, machinePath))
				break
			}
			rest = rest[i+1:]
		}
	}
	return problems
}

func TestPackageComments(t *testing.T) {
	t.Parallel()
	report(t, checkComments(repository(t).goFiles(t)))
}

func TestFileLength(t *testing.T) {
	t.Parallel()
	report(t, checkLength(t, repository(t)))
}

func TestNoPlaces(t *testing.T) {
	t.Parallel()
	report(t, checkPlaces(t, repository(t)))
}

func TestCommentsObject(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		files map[string]string
		word  string // empty wants no problem
	}{
		{"none", map[string]string{"a/a.go": "package a\n"}, "package a in a"},
		{"another name", map[string]string{"a/a.go": "// Package b is planted.\npackage a\n"}, "package a in a"},
		{"a command's", map[string]string{"cmd/x/a.go": "// Package main runs.\npackage main\n"}, "package main in cmd/x"},
		{"tests alone", map[string]string{"a/a_test.go": "package a\n"}, "package a in a"},
		{"one of two files", map[string]string{"a/a.go": "// Package a is planted.\npackage a\n", "a/b.go": "package a\n", "a/c_test.go": "package a_test\n"}, ""},
		{"a command", map[string]string{"cmd/x/a.go": "// Command x runs.\npackage main\n"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := checkComments(plant(t, tt.files).goFiles(t))
			if tt.word == "" {
				report(t, got)
				return
			}
			wantOne(t, got, tt.word)
		})
	}
}

func TestLengthObjects(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x\n", maxLines+1)
	wantOne(t, checkLength(t, plant(t, map[string]string{"a.md": long, "go.sum": long, "b.md": long[2:], "x/testdata/c": long})), "a.md", "601")
}

func TestPlacesObject(t *testing.T) {
	t.Parallel()
	for _, h := range hosts {
		wantOne(t, checkPlaces(t, plant(t, map[string]string{"a.txt": "see https://" + h + "/x"})), h)
	}
	for text, bad := range map[string]bool{
		"cd " + machinePath + "x":                  true,
		`"` + machinePath + `x"`:                   true,
		"/home/runner" + machinePath + "repo":      false,
		"{dir}" + machinePath + "repo":             false,
		"/_work/x":                                 false,
		"a/b" + machinePath + " " + machinePath:    true,
		"`" + strings.TrimSuffix(machinePath, "/"): false,
	} {
		got := checkPlaces(t, plant(t, map[string]string{"a.txt": text}))
		if (len(got) > 0) != bad {
			t.Errorf("%q gives %q", text, got)
		}
	}
}

// checkSleeps finds waits for time to pass. In a bubble of testing/synctest no time passes.
func checkSleeps(files []goFile) []string {
	var problems []string
	for _, f := range files {
		if f.test && slices.Contains(f.imports, "testing/synctest") {
			continue
		}
		if slices.Contains(clockCalls(f.ast), "Sleep") {
			problems = append(problems, f.name+" sleeps: wait for what you wait for (a timer with a context, a channel, testing/synctest)")
		}
	}
	return problems
}

func TestNoSleeps(t *testing.T) {
	t.Parallel()
	report(t, checkSleeps(repository(t).goFiles(t)))
}

func TestSleepsObject(t *testing.T) {
	t.Parallel()
	const sleep = "import \"time\"\nfunc f() { time.Sleep(1) }\n"
	wantOne(t, checkSleeps(plant(t, map[string]string{"a/a_test.go": "package a\n" + sleep}).goFiles(t)), "a/a_test.go sleeps")
	wantOne(t, checkSleeps(plant(t, map[string]string{"a/a.go": "package a\nimport _ \"testing/synctest\"\n" + sleep}).goFiles(t)), "a/a.go sleeps")
	report(t, checkSleeps(plant(t, map[string]string{"a/a_test.go": "package a\nimport _ \"testing/synctest\"\n" + sleep}).goFiles(t)))
}
