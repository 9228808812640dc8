package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"gopkg.in/yaml.v3"
)

// storedContext is a controller that the file knows by a name.
type storedContext struct {
	Name      string `json:"name"                 yaml:"name"`
	Server    string `json:"server,omitempty"     yaml:"server,omitempty"`
	Socket    string `json:"socket,omitempty"     yaml:"socket,omitempty"`
	TokenFile string `json:"token_file,omitempty" yaml:"token_file,omitempty"`
	CAFile    string `json:"ca_file,omitempty"    yaml:"ca_file,omitempty"`
	Pin       string `json:"pin,omitempty"        yaml:"pin,omitempty"`
}

// contextsFile is the user's file of contexts. Tokens are in files of their own.
type contextsFile struct {
	Current  string          `yaml:"current,omitempty"`
	Contexts []storedContext `yaml:"contexts"`
}

var contextName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`)

func checkContextName(name string) error {
	if !contextName.MatchString(name) {
		return usagef("%.64q is no name of a context: use letters, digits, dots, hyphens and underscores", name)
	}
	return nil
}

// configFile is $ZOOMIES_CLI_CONFIG, or else where such files belong for this user.
func configFile() (string, error) {
	if p := os.Getenv(VariableConfig); p != "" {
		return p, nil
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("cannot tell where the file of contexts belongs; set $%s: %w", VariableConfig, err)
	}
	return filepath.Join(dir, "zoomies", "config.yaml"), nil
}

// loadContexts reads the file; one that does not exist has no contexts.
func loadContexts() (contextsFile, error) {
	var f contextsFile
	path, err := configFile()
	if err != nil {
		return f, nil //nolint:nilerr // a machine without a home has no contexts, and may need none
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		err = yaml.Unmarshal(raw, &f)
	}
	if err != nil {
		return f, fmt.Errorf("cannot read the contexts in %s; mend or remove the file: %w", path, err)
	}
	return f, nil
}

// save writes the file anew, for its owner alone.
func (f *contextsFile) save() error {
	path, err := configFile()
	if err != nil {
		return err
	}
	raw, err := yaml.Marshal(f)
	if err != nil {
		return err
	}
	return writePrivate(path, raw)
}

// writePrivate writes a file that its owner alone can read, whole or not at all.
func writePrivate(path string, raw []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the file's folder: %w", err)
	}
	tmp, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, err)
	}
	_, err = tmp.Write(raw)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot write %s: %w", path, err), os.Remove(tmp.Name()))
	}
	return nil
}

func (f *contextsFile) find(name string) *storedContext {
	if i := slices.IndexFunc(f.Contexts, func(c storedContext) bool { return c.Name == name }); i >= 0 {
		return &f.Contexts[i]
	}
	return nil
}

// put adds a context or replaces the one of its name.
func (f *contextsFile) put(c storedContext) {
	if old := f.find(c.Name); old != nil {
		*old = c
		return
	}
	f.Contexts = append(f.Contexts, c)
}

func (f *contextsFile) names() []string {
	out := []string{}
	for _, c := range f.Contexts {
		out = append(out, c.Name)
	}
	return out
}

// contextNames is what the shell offers.
func (a *app) contextNames() []string {
	f, err := loadContexts()
	if err != nil {
		return nil
	}
	return append(f.names(), localName)
}
