package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "zoomies.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Later layers win, and each value knows where it came from.
func TestLayers(t *testing.T) {
	t.Parallel()
	file := write(t, "github:\n  poll_interval: 2m\n  job_recheck: 3m\n  mints_per_minute: 10\nagent.backends: [process, podman]\n")
	c, err := Load(LoadOptions{
		File:     file,
		Database: map[string]string{"github.job_recheck": "4m", "github.mints_per_minute": "20"},
		Environ:  []string{"ZOOMIES_GITHUB_MINTS_PER_MINUTE=30", "PATH=/bin", "ZOOMIES_RUNNERS_ENV=A=1,B=x=y"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := *Default()
	want.GitHub.PollInterval, want.GitHub.JobRecheck, want.GitHub.MintsPerMinute = 2*time.Minute, 4*time.Minute, 30
	want.Agent.Backends = []string{"process", "podman"}
	want.Runners.Env = map[string]string{"A": "1", "B": "x=y"}
	got := *c
	got.sources, want.sources = nil, nil
	got.file, got.unknown = "", nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("settings are\n%+v, want\n%+v", got, want)
	}
	for key, source := range map[string]Source{
		"listen":                  {Layer: FromDefault},
		"github.poll_interval":    {FromFile, file + ":2"},
		"agent.backends":          {FromFile, file + ":5"},
		"github.job_recheck":      {FromDatabase, "github.job_recheck"},
		"github.mints_per_minute": {FromEnvironment, "ZOOMIES_GITHUB_MINTS_PER_MINUTE"},
		"no.such":                 {},
	} {
		if got := c.Source(key); got != source {
			t.Errorf("%s comes from %v, want %v", key, got, source)
		}
	}
}

// A map of a later layer replaces the one below it: otherwise a variable could never be taken away.
func TestMapReplaces(t *testing.T) {
	t.Parallel()
	c, err := Load(LoadOptions{
		File:    write(t, "runners:\n  env:\n    A: 1\n    B: 2\n"),
		Environ: []string{`ZOOMIES_RUNNERS_ENV={"C":"a,b"}`},
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]string{"C": "a,b"}; !reflect.DeepEqual(c.Runners.Env, want) {
		t.Errorf("env is %v, want %v", c.Runners.Env, want)
	}
}

func TestErrorsNameThePlace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, file string
		database   map[string]string
		environ    []string
		want       []string // all of them in one error
	}{
		{name: "unknown key", file: "github:\n  poll_intervall: 1m\n", want: []string{"zoomies.yaml:2:", `"github.poll_intervall"`, "did you mean github.poll_interval?"}},
		{name: "key without its group", file: "poll_interval: 1m\n", want: []string{"zoomies.yaml:1:", "did you mean github.poll_interval?"}},
		{name: "unknown group", file: "githb:\n  poll_interval: 1m\n", want: []string{"zoomies.yaml:1:", "did you mean github?"}},
		{name: "nothing near", file: "quixotic: 1\n", want: []string{`there is no setting "quixotic"`}},
		{name: "bad duration", file: "\ngithub:\n  poll_interval: soon\n", want: []string{"zoomies.yaml:3:", "github.poll_interval", `"soon"`}},
		{name: "no unit", file: "github:\n  poll_interval: 30\n", want: []string{"write 30s"}},
		{name: "below the floor", file: "github:\n  poll_interval: 1s\n", want: []string{"less than 10s"}},
		{name: "above the ceiling", file: "agent:\n  heartbeat_interval: 5m\n", want: []string{"more than 90s"}},
		{name: "bad word", file: "log:\n  level: loud\n", want: []string{"debug, info, warn, error"}},
		{name: "bad backend", file: "agent:\n  backends: [podmann]\n", want: []string{`"podmann"`, "podman, docker, process"}},
		{name: "backend twice", file: "agent:\n  backends: [podman, podman]\n", want: []string{"there twice"}},
		{name: "no backend", file: "agent:\n  backends: []\n", want: []string{"the list is empty"}},
		{name: "twice, nested and dotted", file: "github:\n  poll_interval: 1m\ngithub.poll_interval: 2m\n", want: []string{"zoomies.yaml:3:", "there twice, first at", "zoomies.yaml:2"}},
		{name: "no value", file: "listen:\n", want: []string{"zoomies.yaml:1:", "has no value"}},
		{name: "group with a value", file: "agent: yes\n", want: []string{"is a group of settings"}},
		{name: "setting with a group", file: "listen:\n  port: 1\n", want: []string{"must be a string"}},
		{name: "not a mapping", file: "- a\n", want: []string{"must be a mapping"}},
		{name: "broken", file: "a: [\n", want: []string{"zoomies.yaml", "yaml:"}},
		{name: "two documents", file: "listen: 127.0.0.1:1\n---\nlisten: 0.0.0.0:1\n", want: []string{"more than one YAML document"}},
		{name: "alias", file: "listen: &a 127.0.0.1:1\ndata_dir: *a\n", want: []string{"zoomies.yaml:1:", "zoomies.yaml:2:", "anchors and aliases"}},
		{name: "bad name in env", file: "runners:\n  env:\n    a b: c\n", want: []string{"zoomies.yaml:3:", "cannot be the name"}},
		{name: "variable", environ: []string{"ZOOMIES_AGENT_CAPACITY=many"}, want: []string{"environment variable ZOOMIES_AGENT_CAPACITY", `"many"`}},
		{name: "database", database: map[string]string{"agent.embedded": "perhaps"}, want: []string{"database setting agent.embedded"}},
		{name: "early key in the database", database: map[string]string{"data_dir": "/x"}, want: []string{"before the database opens", "ZOOMIES_DATA_DIR"}},
		{
			name: "all at once", file: "listn: 1\n", environ: []string{"ZOOMIES_SCHEDULER_TICK=x"}, database: map[string]string{"agent.capacity": "-1"},
			want: []string{"did you mean listen?", "ZOOMIES_SCHEDULER_TICK", "agent.capacity"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := LoadOptions{Database: tt.database, Environ: tt.environ}
			if tt.file != "" {
				o.File = write(t, tt.file)
			}
			_, err := Load(o)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error is %q, want %q in it", err, want)
				}
			}
		})
	}
}

func TestFileForms(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty":       "",
		"comments":    "# nothing\n",
		"null":        "~\n",
		"empty group": "agent:\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Load(LoadOptions{File: write(t, text)})
			if err != nil {
				t.Fatal(err)
			}
			if c.Listen != "127.0.0.1:8080" {
				t.Errorf("listen is %q", c.Listen)
			}
		})
	}
	if _, err := Load(LoadOptions{File: filepath.Join(t.TempDir(), "none.yaml")}); err == nil {
		t.Error("a file that is not there was read")
	}
}

// A value may be secret by mistake: a map that does not parse must not be quoted.
func TestMapErrorDoesNotQuote(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"TOKEN=hunter2,hunter3", `{"TOKEN":"hunter2"`} {
		_, err := Load(LoadOptions{Environ: []string{"ZOOMIES_RUNNERS_ENV=" + text}})
		if err == nil || strings.Contains(err.Error(), "hunter") {
			t.Errorf("error is %v", err)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		key, text string
		ok        bool
	}{
		{"github.poll_interval", "30s", true},
		{"github.poll_interval", "5s", false},
		{"github.poll_intervals", "30s", false},
		{"agent.backends", "podman, process", true},
		{"runners.env", "A=1", true},
		{"runners.env", "A", false},
		{"listen", "a\nb", false},
	} {
		if err := Check(tt.key, tt.text); (err == nil) != tt.ok {
			t.Errorf("Check(%q, %q) is %v", tt.key, tt.text, err)
		}
	}
}

func FuzzFile(f *testing.F) {
	for _, seed := range []string{
		"", "~", "listen: 127.0.0.1:8080\n", "github:\n  poll_interval: 1m\n", "runners:\n  env: {A: b}\n",
		"a: &a [*a]\n", "<<: {listen: x}\n", "? [a]\n: b\n", "listen: !!binary aGk=\n", "agent.backends: [podman]\n---\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l, errs := parseFile("zoomies.yaml", data)
		for key := range l.values {
			if _, ok := byKey[key]; !ok {
				t.Errorf("unknown key %q was accepted", key)
			}
			if l.sources[key].Where == "" {
				t.Errorf("%q has no source", key)
			}
		}
		for _, err := range errs {
			if !strings.HasPrefix(err.Error(), "zoomies.yaml:") {
				t.Errorf("error %q does not name the file", err)
			}
		}
	})
}

func TestFindFile(t *testing.T) {
	t.Parallel()
	if got := FindFile("/x.yaml"); got != "/x.yaml" {
		t.Errorf("the file named gave way to %q", got)
	}
	if got := FindFile(""); got != "" && got != DefaultFile {
		t.Errorf("found %q", got)
	}
}
