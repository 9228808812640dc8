package api

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/auth"
)

// Duration is a length of time in Go's form: 90s, 5m, 1h30m.
type Duration string

func duration(d time.Duration) Duration { return Duration(d.String()) }

// Value is the length itself; 0 for what was never read.
func (d Duration) Value() time.Duration {
	v, _ := time.ParseDuration(string(d)) // it was checked when it was read
	return v
}

// maxDuration bounds every duration that is declared.
const maxDuration = 365 * 24 * time.Hour

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	switch {
	case err != nil:
		return fmt.Errorf("%.32q is no duration: write it as 90s, 5m or 1h30m", text)
	case v < 0 || v > maxDuration:
		return fmt.Errorf("a duration is between 0s and %s", maxDuration)
	}
	*d = duration(v)
	return nil
}

// Schema implements huma.SchemaProvider.
func (Duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Type: "string", Pattern: `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`, MaxLength: new(32), Examples: []any{"1h30m"},
		PatternDescription: "a duration such as 90s, 5m or 1h30m",
	}
}

var _ huma.SchemaProvider = Duration("")

// defaultsOptional lets a request leave out the fields that have a default.
func defaultsOptional(s *huma.Schema) *huma.Schema {
	s.Required = slices.DeleteFunc(s.Required, func(name string) bool { return s.Properties[name].Default != nil })
	return s
}

// allRequired says that an answer has every field but those.
func allRequired(s *huma.Schema, but ...string) *huma.Schema {
	s.Required = slices.DeleteFunc(slices.Sorted(maps.Keys(s.Properties)), func(name string) bool { return slices.Contains(but, name) })
	return s
}

// optional is nil for no time.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// timeKey sorts as the time does.
func timeKey(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000000Z") }

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func orEmptyMap(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// storeTarget is an installation as what a request is about; none is the fleet.
func storeTarget(installation string) auth.Target { return auth.Target{Installation: installation} }

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func checkEnvName(name string) error {
	switch {
	case !envName.MatchString(name):
		return fmt.Errorf("%.64q is no name of an environment variable", name)
	case strings.HasPrefix(name, "ZOOMIES_") && name != "ZOOMIES_DOCKER_WAIT":
		return errors.New("names that begin with ZOOMIES_ are the fleet's own")
	}
	return nil
}
