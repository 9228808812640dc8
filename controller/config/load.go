package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
)

// LoadOptions say where the layers are.
type LoadOptions struct {
	// File is the path of zoomies.yaml. Empty reads no file; a file that is not there is
	// an error, so a caller that merely looks at DefaultFile checks first.
	File string
	// Database is the database's layer, key to text.
	Database map[string]string
	// Environ is the environment as os.Environ gives it. Nil is none.
	Environ []string
	// OtherVariables are ZOOMIES_ variables that are no settings and that the caller reads
	// itself, such as a join token. Any other unknown one becomes a finding.
	OtherVariables []string
}

// layer is one source's values, parsed.
type layer struct {
	values  map[string]any
	sources map[string]Source
}

func newLayer() layer { return layer{values: map[string]any{}, sources: map[string]Source{}} }

// Load reads and merges the layers. Its error joins everything that is wrong, each line with
// the file and line, the variable or the database key to mend.
func Load(o LoadOptions) (*Config, error) {
	c := &Config{file: o.File, sources: map[string]Source{}}
	defaults, err := defaultLayer()
	if err != nil {
		return nil, err
	}
	var errs []error
	file := newLayer()
	if o.File != "" {
		data, err := os.ReadFile(o.File)
		if err != nil {
			return nil, fmt.Errorf("cannot read the settings file: %w", err)
		}
		var fileErrs []error
		file, fileErrs = parseFile(o.File, data)
		errs = append(errs, fileErrs...)
	}
	database, unknownKeys, dbErrs := databaseLayer(o.Database)
	environment, unknownVars, envErrs := environLayer(o.Environ, o.OtherVariables)
	errs = append(append(errs, dbErrs...), envErrs...)
	if len(errs) > 0 {
		return nil, fmt.Errorf("cannot use the settings:\n%w", errors.Join(errs...))
	}
	k := koanf.New(".")
	for _, l := range []layer{defaults, file, database, environment} {
		if err := k.Load(confmap.Provider(l.values, "."), nil); err != nil {
			return nil, fmt.Errorf("cannot merge the settings: %w", err)
		}
		maps.Copy(c.sources, l.sources)
	}
	if err := k.Unmarshal("", c); err != nil {
		return nil, fmt.Errorf("cannot fill in the settings: %w", err)
	}
	c.unknown = slices.Concat(unknownKeys, unknownVars)
	return c, nil
}

// Default returns the settings with every default and nothing else.
func Default() *Config {
	c, err := Load(LoadOptions{})
	if err != nil {
		// Only a registry row whose default does not parse ends here; a test tries each.
		panic(err)
	}
	return c
}

func defaultLayer() (layer, error) {
	l := newLayer()
	for _, s := range registry {
		v, err := s.parse(s.Default)
		if err != nil {
			return l, fmt.Errorf("cannot read the default of %s: %w", s.Key, err)
		}
		l.values[s.Key] = v
	}
	return l, nil
}

// databaseLayer reads the database's values. A key it does not know is no error: a newer
// version may have written it, and going back to this one must still start.
func databaseLayer(db map[string]string) (layer, []unknownName, []error) {
	l := newLayer()
	var unknown []unknownName
	var errs []error
	for _, key := range sortedKeys(db) {
		source := Source{Layer: FromDatabase, Where: key}
		s, ok := byKey[key]
		switch {
		case strings.HasPrefix(key, InternalPrefix):
			continue
		case !ok:
			unknown = append(unknown, unknownName{source: source, name: key, hint: nearest(key)})
			continue
		case s.Early:
			errs = append(errs, fmt.Errorf("database setting %s: it is needed before the database opens; set it in the file or as %s", key, s.Env()))
			continue
		}
		v, err := s.parse(db[key])
		if err != nil {
			errs = append(errs, fmt.Errorf("database setting %s: %w", key, err))
			continue
		}
		l.values[key], l.sources[key] = v, source
	}
	return l, unknown, errs
}

func environLayer(environ, others []string) (layer, []unknownName, []error) {
	l := newLayer()
	byEnv := make(map[string]Setting, len(registry))
	for _, s := range registry {
		byEnv[s.Env()] = s
	}
	var unknown []unknownName
	var errs []error
	for _, pair := range environ {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || !strings.HasPrefix(name, EnvPrefix) {
			continue
		}
		source := Source{Layer: FromEnvironment, Where: name}
		s, ok := byEnv[name]
		if !ok {
			if !slices.Contains(others, name) {
				unknown = append(unknown, unknownName{source: source, name: name, hint: nearestVariable(name)})
			}
			continue
		}
		v, err := s.parse(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("environment variable %s: %w", name, err))
			continue
		}
		l.values[s.Key], l.sources[s.Key] = v, source
	}
	return l, unknown, errs
}

// Check says whether text is a legal value of key, as the database or the environment would
// give it. Whoever writes a setting asks this first.
func Check(key, text string) error {
	s, ok := byKey[key]
	if !ok {
		return fmt.Errorf("there is no setting %q%s", key, didYouMean(nearest(key)))
	}
	if _, err := s.parse(text); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}
