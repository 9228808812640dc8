package tree

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// commands is what a newcomer can type: targets of the Makefile, verbs and flags of the binary.
type commands struct {
	targets map[string]bool
	verbs   map[string]bool // the first word of each command's Use
	flags   map[string]bool
}

// cliPage describes every verb and flag.
const cliPage = "docs/reference/cli.md"

var (
	targetForm  = regexp.MustCompile(`(?m)^([a-z][a-z-]*):(?:[^=]|$)`)
	flagCall    = regexp.MustCompile(`^(Bool|Int|Int64|String|StringSlice|StringArray|StringToString|Duration|Float64|Count)VarP?$`)
	makeForm    = regexp.MustCompile(`^make ([a-z][a-z-]*)`)
	cliForm     = regexp.MustCompile(`^(?:bin/)?zoomies ([a-z][a-z-]*)(.*)$`)
	pageCommand = regexp.MustCompile("(?m)^##+ `zoomies ([a-z -]+)`$")
	pageFlag    = regexp.MustCompile("(?m)^\\| `--([a-z][a-z-]+)`")
	flagForm    = regexp.MustCompile(`--([a-z][a-z-]+)`)
)

func readCommands(t *testing.T, s source) commands {
	t.Helper()
	c := commands{targets: map[string]bool{}, verbs: map[string]bool{}, flags: map[string]bool{}}
	for _, m := range targetForm.FindAllStringSubmatch(s.text(t, "Makefile"), -1) {
		c.targets[m[1]] = true
	}
	for _, f := range s.goFiles(t) {
		if f.test || !under(f.folder, "cmd/zoomies") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Use" {
					if use, ok := literal(n.Value); ok {
						verb, _, _ := strings.Cut(use, " ")
						c.verbs[verb] = true
					}
				}
			case *ast.CallExpr:
				if name, ok := flagName(n); ok {
					c.flags[name] = true
				}
			}
			return true
		})
	}
	if slices.Contains(s.files, cliPage) { // the client's verbs come from the API's description; the page is held to the binary
		text := s.text(t, cliPage)
		for _, m := range pageCommand.FindAllStringSubmatch(text, -1) {
			for verb := range strings.FieldsSeq(m[1]) {
				c.verbs[verb] = true
			}
		}
		for _, m := range pageFlag.FindAllStringSubmatch(text, -1) {
			c.flags[m[1]] = true
		}
	}
	delete(c.verbs, "zoomies") // the root
	return c
}

// flagName returns the name that a call such as c.Flags().BoolVar(&x, "json", …) declares.
func flagName(call *ast.CallExpr) (string, bool) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", false
	}
	if !flagCall.MatchString(sel.Sel.Name) || len(call.Args) < 3 {
		return "", false
	}
	return literal(call.Args[1])
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

// shown returns what a page shows as typed: lines of its code blocks and pieces of inline code.
func shown(text string) []string {
	var out []string
	plain := prose(text)
	for i, line := range strings.Split(text, "\n") {
		if plain[i] == "" {
			line = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
			out = append(out, strings.TrimPrefix(line, "sudo "))
			continue
		}
		for _, code := range inlineCode.FindAllString(line, -1) {
			out = append(out, strings.Trim(code, "`"))
		}
	}
	return out
}

// checkShown wants every command that a page shows to exist.
func checkShown(t *testing.T, s source, c commands) []string {
	t.Helper()
	var problems []string
	for _, page := range s.ending(".md") {
		for _, line := range shown(s.text(t, page)) {
			if m := makeForm.FindStringSubmatch(line); m != nil && !c.targets[m[1]] {
				problems = append(problems, fmt.Sprintf("%s shows make %s, which the Makefile does not have", page, m[1]))
			}
			m := cliForm.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			if !c.verbs[m[1]] {
				problems = append(problems, fmt.Sprintf("%s shows zoomies %s, which is no command", page, m[1]))
			}
			for _, f := range flagForm.FindAllStringSubmatch(m[2], -1) {
				if !c.flags[f[1]] {
					problems = append(problems, fmt.Sprintf("%s shows --%s with zoomies %s, which is no flag", page, f[1], m[1]))
				}
			}
		}
	}
	return problems
}

// checkCLIPage wants the reference to have every verb and flag.
func checkCLIPage(t *testing.T, s source, c commands) []string {
	t.Helper()
	text := s.text(t, cliPage)
	var problems []string
	for _, verb := range sorted(c.verbs) {
		if !regexp.MustCompile("`zoomies (?:[a-z-]+ )*" + regexp.QuoteMeta(verb) + "\\b").MatchString(text) {
			problems = append(problems, fmt.Sprintf("%s does not have the command %s", cliPage, verb))
		}
	}
	for _, flag := range sorted(c.flags) {
		if !regexp.MustCompile("`--" + regexp.QuoteMeta(flag) + "\\b").MatchString(text) {
			problems = append(problems, fmt.Sprintf("%s does not have the flag --%s", cliPage, flag))
		}
	}
	return problems
}

func sorted(set map[string]bool) []string {
	var out []string
	for k := range set {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func TestCommands(t *testing.T) {
	t.Parallel()
	s := repository(t)
	c := readCommands(t, s)
	for _, want := range []string{"help", "demo", "test", "lint", "build"} {
		if !c.targets[want] {
			t.Errorf("the Makefile has no target %s, or this test cannot read it", want)
		}
	}
	if len(c.verbs) == 0 || len(c.flags) == 0 {
		t.Error("no command of cmd/zoomies was found")
	}
	report(t, checkShown(t, s, c))
	report(t, checkCLIPage(t, s, c))
}

// The README's two commands are the two that it promises.
func TestReadmeShowsTheTwoCommands(t *testing.T) {
	t.Parallel()
	lines := shown(repository(t).text(t, "README.md"))
	for _, want := range []string{"make demo", "make test"} {
		if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, want) }) {
			t.Errorf("the README does not show %s", want)
		}
	}
}

func TestCommandsObject(t *testing.T) {
	t.Parallel()
	const code = "// Command zoomies is planted.\npackage main\n" +
		"var c = &command{Use: \"zoomies\"}\nvar d = &command{Use: \"keys\"}\nvar e = &command{Use: \"rotate [flags]\"}\n" +
		"func f() { d.Flags().BoolVar(&x, \"json\", false, \"\"); fl.StringVarP(&y, \"config\", \"c\", \"\", \"\"); slog.String(\"x\", z) }\n"
	const page = "`zoomies keys`, `zoomies keys rotate`, `--json`, `--config`\n"
	for _, tt := range []struct {
		name, page, cli, word string
	}{
		{"no such target", "```\nmake coffee\n```\n", page, "make coffee"},
		{"no such verb", "Run `zoomies brew`.\n", page, "zoomies brew"},
		{"no such flag", "```\nbin/zoomies keys rotate --jsn\n```\n", page, "--jsn"},
		{"a verb left out", "", "`zoomies keys`, `--json`, `--config`\n", "the command rotate"},
		{"a flag left out", "", "`zoomies keys rotate`, `zoomies keys`, `--json`\n", "--config"},
		{"all is well", "```\n$ make demo\nsudo zoomies keys rotate --json\n```\nIt makes sense, and zoomies coffee is prose.\n", page, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := plant(t, map[string]string{
				"Makefile": "X := 1\ndemo: deps ## Run\n", "cmd/zoomies/a.go": code, cliPage: tt.cli, "README.md": tt.page,
			})
			c := readCommands(t, s)
			got := append(checkShown(t, s, c), checkCLIPage(t, s, c)...)
			if tt.word == "" {
				report(t, got)
				return
			}
			wantOne(t, got, tt.word)
		})
	}
}
