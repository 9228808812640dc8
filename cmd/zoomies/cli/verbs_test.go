package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/problems"
)

// withoutVerb are the operations that no command calls by itself, each with the reason.
var withoutVerb = map[string]string{
	"metrics":            "Prometheus reads it; a person has zoomies status",
	"manifest-form":      "a browser opens it",
	"manifest-created":   "GitHub sends a browser there",
	"manifest-installed": "GitHub sends a browser there",
	"sign-in":            "zoomies login signs in",
	"sign-out":           "zoomies login signs out when it has its token",
}

func every(c *cobra.Command, f func(*cobra.Command)) {
	f(c)
	for _, sub := range c.Commands() {
		every(sub, f)
	}
}

// tree is every command of the client.
func tree() *cobra.Command {
	root := &cobra.Command{Use: "zoomies"}
	c := New(Options{Version: "test"})
	Setup(root)
	join := &cobra.Command{Use: "join-token"}
	c.JoinTokens(join)
	root.AddCommand(append(c.Commands(), join)...)
	return root
}

// Everything that the API can do, the command line can do.
func TestEveryOperationHasAVerb(t *testing.T) {
	t.Parallel()
	by := map[string][]string{}
	every(tree(), func(c *cobra.Command) {
		if op := c.Annotations[annotationOperation]; op != "" {
			by[op] = append(by[op], c.CommandPath())
		}
	})
	for _, g := range auth.Guards {
		if g.Access != auth.ByRole && g.Access != auth.AnyUser {
			continue
		}
		if len(by[g.ID]) == 0 && withoutVerb[g.ID] == "" {
			t.Errorf("no command calls %s, and nobody says why", g.ID)
		}
		if len(by[g.ID]) > 0 && withoutVerb[g.ID] != "" {
			t.Errorf("%s has a command and a reason to have none", g.ID)
		}
	}
	for op := range by {
		if _, ok := auth.Find(op); !ok {
			t.Errorf("%s calls %s, which the API does not have", strings.Join(by[op], ", "), op)
		}
	}
	for id, why := range withoutVerb {
		if _, ok := auth.Find(id); !ok || why == "" {
			t.Errorf("%s: no such operation, or no reason", id)
		}
	}
}

// What tables show is there: a column is a field of what the list's answer holds.
func TestColumnsExist(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "reference", "openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range append(slices.Clone(nouns), sessionsOfUser) {
		list := n.list
		if n == sessionsOfUser {
			list = session.list
		}
		op, served := operations[list]
		if !served {
			continue
		}
		page := doc.Paths.Value(op.path).Get.Responses.Value("200").Value.Content["application/json"].Schema.Value
		item := page.Properties["items"].Value.Items.Value
		for _, c := range n.cols {
			schema := item
			for part := range strings.SplitSeq(c.key, ".") {
				if schema.Properties[part] == nil {
					t.Errorf("%s has no %s to show under %s", n.one, c.key, c.head)
					break
				}
				schema = schema.Properties[part].Value
			}
		}
		if n != sessionsOfUser && n.name != "" && item.Properties[n.name] == nil {
			t.Errorf("%s has no %s to be called by", n.one, n.name)
		}
	}
}

// No secret can be given on a command line, where a process list would show it.
func TestSecretsAreNoFlags(t *testing.T) {
	t.Parallel()
	every(tree(), func(c *cobra.Command) {
		for _, bad := range []string{"password", "private-key", "webhook-secret", "token", "code", "new", "current", "secret"} {
			if f := c.Flags().Lookup(bad); f != nil && !strings.HasSuffix(c.CommandPath(), "problems list") {
				t.Errorf("%s has the flag --%s", c.CommandPath(), bad)
			}
		}
		for _, word := range strings.Fields(c.Use)[1:] {
			if slices.Contains([]string{"PASSWORD", "TOKEN-VALUE", "SECRET", "PRIVATE-KEY"}, word) {
				t.Errorf("%s takes a secret as an argument", c.UseLine())
			}
		}
	})
}

// Every command says what it does, and takes its own arguments' errors as wrong usage.
func TestEveryCommandIsDescribed(t *testing.T) {
	t.Parallel()
	every(tree(), func(c *cobra.Command) {
		if c.HasParent() && c.Name() != "join-token" && (c.Short == "" || strings.HasSuffix(c.Short, ".") || c.Args == nil) {
			t.Errorf("%s: short %q, or nothing said of its arguments", c.CommandPath(), c.Short)
		}
	})
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for _, e := range Exits {
		if seen[e.Code] || e.Meaning == "" {
			t.Errorf("%d is declared twice or means nothing", e.Code)
		}
		seen[e.Code] = true
	}
	for _, tt := range []struct {
		status, want int
	}{
		{400, ExitUsage}, {422, ExitUsage}, {404, ExitNotFound}, {401, ExitRefused}, {403, ExitRefused}, {409, ExitConflict}, {412, ExitConflict},
		{429, ExitUnavailable}, {502, ExitUnavailable}, {503, ExitUnavailable}, {500, ExitFailed},
	} {
		if got := exitOf(tt.status); got != tt.want {
			t.Errorf("HTTP %d ends with %d, want %d", tt.status, got, tt.want)
		}
	}
	for level, want := range map[string]int{"ok": 0, "attention": 10, "broken": 11, "": 11} {
		if got := ExitCode(levelError(level)); got != want {
			t.Errorf("the level %q ends with %d, want %d", level, got, want)
		}
	}
}

func TestDidYouMean(t *testing.T) {
	t.Parallel()
	names := []string{"linux", "linux-large", "mac"}
	for text, want := range map[string]string{"linus": "linux", "LINUX": "linux", "linux-lrge": "linux-large", "windows": ""} {
		got := strings.TrimSuffix(strings.TrimPrefix(didYouMean(text, names), "; did you mean "), "?")
		if got != want {
			t.Errorf("%q gives %q, want %q", text, got, want)
		}
	}
}

// The command that a problem offers is one that there is, with flags that it has, and it calls what the problem says.
func TestRemediesAreCommands(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, code := range problems.All() {
		r := code.Kind().Remedy
		if r == nil || r.Command == "" {
			continue
		}
		seen++
		words := strings.Fields(r.Command)
		c, rest, err := tree().Find(words[1:])
		if words[0] != "zoomies" || err != nil || !c.HasParent() {
			t.Errorf("%s: %s is no command: %v", code, r.Command, err)
			continue
		}
		if c.Name() == "join-token" {
			continue // a command of the binary's, held by its own test
		}
		if err := c.ParseFlags(rest); err != nil {
			t.Errorf("%s: %s: %v", code, r.Command, err)
			continue
		}
		if err := c.ValidateArgs(c.Flags().Args()); err != nil {
			t.Errorf("%s: %s: %v", code, r.Command, err)
		}
		if err := c.ValidateRequiredFlags(); err != nil {
			t.Errorf("%s: %s: %v", code, r.Command, err)
		}
		if op := c.Annotations[annotationOperation]; op != r.Operation {
			t.Errorf("%s: %s calls %s, and the remedy is %s", code, r.Command, op, r.Operation)
		}
	}
	if seen == 0 {
		t.Error("no problem has a remedy")
	}
}
