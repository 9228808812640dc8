package problems_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/config"
	"github.com/zoomies-fleet/zoomies/controller/problems"
)

func TestEveryProblemIsDeclaredWhole(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range problems.All() {
		k := c.Kind()
		if seen[k.Code] {
			t.Errorf("%s is declared twice", k.Code)
		}
		seen[k.Code] = true
		if !slices.Contains(problems.Severities, k.Severity) || !slices.Contains(auth.Roles, k.Audience) {
			t.Errorf("%s: severity %q, audience %q", k.Code, k.Severity, k.Audience)
		}
		for what, text := range map[string]string{"title": k.Title, "why": k.Why, "fix": k.Fix} {
			if text == "" || strings.ContainsAny(text[len(text)-1:], ".?") == (what == "title") {
				t.Errorf("%s: the %s is %q: a title has no full stop, the others are sentences", k.Code, what, text)
			}
		}
		if found, ok := problems.Find(k.Code); !ok || found != c {
			t.Errorf("%s is not found", k.Code)
		}
		if k.Remedy == nil {
			continue
		}
		g, ok := auth.Find(k.Remedy.Operation)
		if !ok {
			t.Errorf("%s: the API has no %s", k.Code, k.Remedy.Operation)
			continue
		}
		if takes := strings.Contains(g.Path, "{"); takes != strings.Contains(k.Remedy.Command, "{subject}") {
			t.Errorf("%s: the path is %s and the command %q: both take the subject, or neither", k.Code, g.Path, k.Remedy.Command)
		}
		if k.Remedy.Summary == "" || !strings.HasPrefix(k.Remedy.Command, "zoomies ") {
			t.Errorf("%s: remedy %+v", k.Code, k.Remedy)
		}
	}
	if len(seen) < 30 {
		t.Errorf("only %d problems are declared", len(seen))
	}
}

// Every finding about the settings is a problem, with the severity that it is found with.
func TestEveryFindingIsAProblem(t *testing.T) {
	t.Parallel()
	parsed, err := parser.ParseFile(token.NewFileSet(), "../config/finding.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	ast.Inspect(parsed, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") {
			return true
		}
		n++
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if got := problems.OfFinding(text); got.String() != "config."+text || got.Kind().Subject != problems.OfSetting {
			t.Errorf("config.%s (%s) is not declared: add a row to settings.go", text, spec.Names[0].Name)
		}
		return true
	})
	if n < 20 {
		t.Errorf("only %d codes of findings were found", n)
	}
}

type told struct {
	code   problems.Code
	stands bool
}

func TestTheSetTellsWhatChanged(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var news []told
	s := problems.NewSet(func() time.Time { return now }, func(p problems.Problem, stands bool) { news = append(news, told{p.Code, stands}) })
	since := now
	s.Raise("pool_1", problems.Problem{Code: problems.PoolBlocked, Title: "Pool a wants 1"})
	now = now.Add(time.Minute)
	s.Raise("pool_1", problems.Problem{Code: problems.PoolBlocked, Title: "Pool a wants 1"}) // no news
	s.Raise("pool_1", problems.Problem{Code: problems.PoolBlocked, Title: "Pool a wants 2"})
	s.Raise("", problems.Problem{Code: problems.Unmatched})
	s.Raise("", problems.Problem{Title: "of no kind"})
	list := s.List()
	if len(list) != 2 || list[1].Title != "Pool a wants 2" || !list[1].Since.Equal(since) || list[1].Fix != problems.PoolBlocked.Kind().Fix || !list[0].Since.Equal(now) {
		t.Errorf("what stands: %+v", list)
	}
	if got := s.Subjects(problems.PoolBlocked); !slices.Equal(got, []string{"pool_1"}) {
		t.Errorf("subjects: %v", got)
	}
	s.Is(problems.PoolBlocked, "pool_1", false, nil)
	s.Clear(problems.PoolBlocked, "pool_1") // no news
	s.Is(problems.HostLost, "hst_1", true, func() problems.Problem { return problems.Problem{Title: "Host a is lost"} })
	if !s.Stands(problems.HostLost, "hst_1") || s.Stands(problems.PoolBlocked, "pool_1") {
		t.Errorf("what stands: %+v", s.List())
	}
	want := []told{{problems.PoolBlocked, true}, {problems.PoolBlocked, true}, {problems.Unmatched, true}, {problems.PoolBlocked, false}, {problems.HostLost, true}}
	if !slices.Equal(news, want) {
		t.Errorf("told of %v, want %v", news, want)
	}
}

func TestFindingsOfOneSettingAreOneProblem(t *testing.T) {
	t.Parallel()
	s := problems.NewSet(time.Now, nil)
	s.RaiseFindings([]config.Finding{
		{Severity: config.Warning, Code: config.CodeRunnerSecret, Title: "A looks like a secret.", Why: "w", Fix: "f", Key: "runners.env"},
		{Severity: config.Warning, Code: config.CodeRunnerSecret, Title: "B looks like a secret.", Why: "w", Fix: "f", Key: "runners.env"},
		{Severity: config.Warning, Code: config.CodePollOff, Title: "Off.", Why: "w", Fix: "f", Key: "github.poll_fallback"},
	})
	list := s.List()
	if len(list) != 2 || list[0].Code.String() != "config.github.poll_off" || list[1].Title != "A looks like a secret. B looks like a secret." || list[1].Fix != "f" {
		t.Fatalf("problems: %+v", list)
	}
	raw, err := json.Marshal(list[0])
	if err != nil || !strings.Contains(string(raw), `"code":"config.github.poll_off","subject":"github.poll_fallback"`) {
		t.Errorf("%s %v", raw, err)
	}
	if got := problems.PoolBlocked.Link(); got != "docs/reference/problems.md#poolblocked" {
		t.Errorf("link %s", got)
	}
	if got := problems.PollOnly.Kind().Remedy.For("ins_1").Command; got != "zoomies installations check ins_1" {
		t.Errorf("command %q", got)
	}
}
