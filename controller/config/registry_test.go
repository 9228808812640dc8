package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Every row has a field and every field a row, of the same kind.
func TestRegistryMatchesConfig(t *testing.T) {
	t.Parallel()
	kinds := map[Kind]reflect.Type{
		String: reflect.TypeFor[string](), SecretFile: reflect.TypeFor[string](), Int: reflect.TypeFor[int](),
		Bool: reflect.TypeFor[bool](), Duration: reflect.TypeFor[time.Duration](),
		List: reflect.TypeFor[[]string](), Map: reflect.TypeFor[map[string]string](),
	}
	fields := map[string]reflect.Type{}
	var walk func(prefix string, typ reflect.Type)
	walk = func(prefix string, typ reflect.Type) {
		for f := range typ.Fields() {
			if !f.IsExported() {
				continue
			}
			tag := f.Tag.Get("koanf")
			if tag == "" {
				t.Errorf("field %s of %s has no koanf tag", f.Name, typ)
			}
			if f.Type.Kind() == reflect.Struct {
				walk(prefix+tag+".", f.Type)
				continue
			}
			fields[prefix+tag] = f.Type
		}
	}
	walk("", reflect.TypeFor[Config]())
	for _, s := range Registry() {
		typ, ok := fields[s.Key]
		if !ok {
			t.Errorf("%s has no field", s.Key)
			continue
		}
		if typ != kinds[s.Kind] {
			t.Errorf("%s is a %s, its field a %s", s.Key, s.Kind, typ)
		}
		delete(fields, s.Key)
	}
	for key := range fields {
		t.Errorf("field %s has no row", key)
	}
}

// What is shown of a value is what the environment takes, so that it can be copied from one fleet to another.
func TestTextIsReadBack(t *testing.T) {
	t.Parallel()
	rows := map[string]string{
		"github.poll_interval": "90s", "agent.backends": "process,podman", "agent.capacity": "7", "agent.embedded": "false", "log.level": "debug",
		"runners.env": `{"A":"1,2","B":"x=y"}`,
	}
	c, err := Load(LoadOptions{Database: rows})
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{"github.poll_interval": "1m30s", "agent.backends": "process,podman", "runners.env": rows["runners.env"], "no.such": ""} {
		if got := c.Text(key); got != want {
			t.Errorf("%s is shown as %q, want %q", key, got, want)
		}
	}
	again := map[string]string{}
	for _, s := range Registry() {
		if text := c.Text(s.Key); !s.Early {
			again[s.Key] = text
		}
	}
	d, err := Load(LoadOptions{Database: again})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range Registry() {
		if c.Text(s.Key) != d.Text(s.Key) {
			t.Errorf("%s: %q became %q", s.Key, c.Text(s.Key), d.Text(s.Key))
		}
	}
}

func TestRegistryRows(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	env := map[string]bool{}
	groups := map[string]bool{}
	last := ""
	for _, s := range Registry() {
		if seen[s.Key] || env[s.Env()] {
			t.Errorf("%s is there twice", s.Key)
		}
		seen[s.Key], env[s.Env()] = true, true
		if s.Key != strings.ToLower(s.Key) || strings.Count(s.Key, ".") > 1 {
			t.Errorf("%q is not a key", s.Key)
		}
		if s.Summary == "" || !strings.HasSuffix(s.Summary, ".") {
			t.Errorf("%s: the summary is not a sentence", s.Key)
		}
		if s.Effect != Live && s.Effect != Restart {
			t.Errorf("%s: the effect is %q", s.Key, s.Effect)
		}
		if s.Group != last && groups[s.Group] {
			t.Errorf("%s: the group %s is in two places", s.Key, s.Group)
		}
		groups[s.Group], last = true, s.Group
		if _, err := s.parse(s.Default); err != nil {
			t.Errorf("%s: the default does not parse: %v", s.Key, err)
		}
		for _, bound := range []string{s.Floor, s.Ceiling} {
			if bound == "" {
				continue
			}
			if s.Kind != Int && s.Kind != Duration {
				t.Errorf("%s: a %s has no bounds", s.Key, s.Kind)
			}
			if _, err := s.parse(bound); err != nil {
				t.Errorf("%s: the bound %s does not parse: %v", s.Key, bound, err)
			}
		}
		if s.Floor != "" {
			if _, err := s.parse("-" + s.Floor); err == nil && s.Floor != "0" && s.Floor != "0s" {
				t.Errorf("%s: the floor does not hold", s.Key)
			}
		}
	}
}

// The spec's relations between the defaults and the constants.
func TestDefaultRelations(t *testing.T) {
	t.Parallel()
	c := Default()
	if 3*c.Agent.HeartbeatInterval > HeartbeatTimeout {
		t.Error("one slow heartbeat makes a host unhealthy: the timeout is less than three intervals")
	}
	if c.Scheduler.ProvisionTimeout <= c.Runners.CreateTimeout+c.Runners.DockerWait {
		t.Error("a runner is given up while it may still rightly be starting")
	}
	if c.Scheduler.ProvisionTimeout > CreateLease {
		t.Error("a create is offered again while nothing waits for it any more")
	}
	if c.Agent.Slots() < 1 {
		t.Error("a machine with cores has no slot")
	}
	if c.DatabaseFile() != "/var/lib/zoomies/zoomies.db" || c.KeyFile() != "/var/lib/zoomies/zoomies.keys" {
		t.Errorf("files are %s and %s", c.DatabaseFile(), c.KeyFile())
	}
}

func TestDistance(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"listen", "listn", 1}, {"kitten", "sitting", 3}} {
		if got := Distance(tt.a, tt.b); got != tt.want {
			t.Errorf("distance(%q, %q) is %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z_.]{0,12}`)
		a, b, c := word.Draw(t, "a"), word.Draw(t, "b"), word.Draw(t, "c")
		if Distance(a, b) != Distance(b, a) {
			t.Fatal("not symmetric")
		}
		if (Distance(a, b) == 0) != (a == b) {
			t.Fatal("zero means equal")
		}
		if Distance(a, c) > Distance(a, b)+Distance(b, c) {
			t.Fatal("a detour is shorter")
		}
	})
}
