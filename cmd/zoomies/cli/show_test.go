package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/client"
)

func showing(output string) *app {
	a := &app{names: map[string]string{"pool_1": "linux"}, now: func() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }}
	a.flags.output = output
	return a
}

const answer = `{"id":"pool_1","number":"007","max":3,"env":{"A":"true"},"list":["a","b"],"none":[],"text":"two\nlines \u001b[31mred","paused":false,` +
	`"created_at":"2026-11-30T11:00:00Z","grants":[{"role":"viewer","scope_kind":"pool","scope_id":"pool_1"}],"big":12345678901234567}`

// YAML and JSON say what the answer says: a text that looks like a number stays a text.
func TestWholeAnswers(t *testing.T) {
	t.Parallel()
	for output, want := range map[string][]string{
		outputJSON: {`"number": "007"`, `"big": 12345678901234567`, `"A": "true"`},
		outputYAML: {`number: "007"`, `big: 12345678901234567`, `A: "true"`, "paused: false\n", "  - a\n"},
	} {
		var b bytes.Buffer
		if err := showing(output).showOne(&b, json.RawMessage(answer)); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("%s has no %q:\n%s", output, w, b.String())
			}
		}
	}
}

// A table is for eyes: names, ages, and nothing that a terminal would take for a command.
func TestTables(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	cols := []column{{"ID", "id"}, {"MAX", "max"}, {"LIST", "list"}, {"NONE", "none"}, {"TEXT", "text"}, {"PAUSED", "paused"}, {"MADE", "created_at"}, {"GRANTS", "grants"}, {"DEEP", "env.A"}, {"GONE", "gone.x"}}
	if err := showing(outputTable).showList(&b, []json.RawMessage{json.RawMessage(answer)}, cols); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 2 || strings.Contains(b.String(), "\x1b") {
		t.Fatalf("got %q", b.String())
	}
	if got, want := strings.Join(strings.Fields(lines[1]), " "), "linux 3 a,b - two lines [31mred no 60m ago viewer@pool/linux true -"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	b.Reset()
	a := showing(outputTable)
	a.flags.quiet = true
	if err := a.showOne(&b, json.RawMessage(answer)); err != nil || b.String() != "pool_1\n" {
		t.Errorf("quiet shows %q, %v", b.String(), err)
	}
}

func TestRunnerOutput(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	cmd.SetErr(&errs)
	a := showing(outputTable)
	for _, e := range []client.Event{
		{Type: "log", Data: []byte(`{"text":"one\n"}`)}, {Type: "lost", Data: []byte(`{"bytes":12}`)}, {Type: "log", Data: []byte(`{"text":"two"}`)},
		{Type: "end", Data: []byte(`{"reason":"ended","message":"The runner has ended."}`)},
	} {
		if err := a.showOutput(cmd, e); err != nil {
			t.Fatal(err)
		}
	}
	if out.String() != "one\ntwo" || !strings.Contains(errs.String(), "12 bytes") || !strings.Contains(errs.String(), "The runner has ended.") {
		t.Errorf("output %q, beside it %q", out.String(), errs.String())
	}
	if err := a.showOutput(cmd, client.Event{Type: "log", Data: []byte("no json")}); err == nil {
		t.Error("what is no output was shown")
	}
}

func TestGrants(t *testing.T) {
	t.Parallel()
	a := showing(outputTable)
	got, err := a.grants(t.Context(), nil, []string{"admin", "operator@pool/pool_9", "viewer@installation/ins_9"})
	if err != nil || len(got) != 3 || got[0]["scope_kind"] != "fleet" || got[1]["scope_id"] != "pool_9" || got[2]["scope_kind"] != "installation" {
		t.Errorf("got %v, %v", got, err)
	}
	for _, bad := range []string{"", "boss", "admin@", "admin@host/x", "admin@pool"} {
		if _, err := a.grants(t.Context(), nil, []string{bad}); ExitCode(err) != ExitUsage {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
