// Package ignition makes the configs that machines are set up with at their first boot: plain typed values go through Butane, and what
// comes out is Ignition 3.4, validated with Ignition's own rules before anybody sees it. It knows no fleet, reads no file and keeps
// nothing. Configs hold secrets; errors never do.
package ignition

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	base "github.com/coreos/butane/base/v0_5"
	"github.com/coreos/butane/config/common"
	butane "github.com/coreos/butane/config/fcos/v1_5"
	ign "github.com/coreos/ignition/v2/config/v3_4"
	"github.com/coreos/vcontext/report"
)

// Version is the version of Ignition's configs that this package writes. Ignition 2.15 and later read it.
const Version = "3.4.0"

// MaxSize is the largest config in bytes that Render returns: what a config drive carries to a first boot in seconds.
const MaxSize = 24_000_000

// Secret is text that must not be printed by accident.
type Secret string

// String hides the secret.
func (Secret) String() string { return "[secret]" }

// GoString hides the secret.
func (Secret) GoString() string { return "[secret]" }

// config is Butane's, as it grows.
type config struct {
	butane.Config
}

func (c *config) dir(path string, mode fs.FileMode) {
	c.Storage.Directories = append(c.Storage.Directories, base.Directory{Path: path, Mode: new(int(mode)), Overwrite: new(false)})
}

// file adds a file that replaces one of the image's.
func (c *config) file(path string, mode fs.FileMode, text string) {
	c.resource(path, mode, base.Resource{Inline: &text})
}

func (c *config) resource(path string, mode fs.FileMode, r base.Resource) {
	c.Storage.Files = append(c.Storage.Files, base.File{Path: path, Mode: new(int(mode)), Overwrite: new(true), Contents: r})
}

// unit enables a unit: one of the image's when there is no text.
func (c *config) unit(name, text string) {
	u := base.Unit{Name: name, Enabled: new(true)}
	if text != "" {
		u.Contents = &text
	}
	c.Systemd.Units = append(c.Systemd.Units, u)
}

// render translates and validates.
func (c *config) render() ([]byte, error) {
	c.Variant, c.Version = "fcos", "1.5.0"
	// Compressed text would save little beside the agent, and a config is read by people, too.
	out, r, err := c.ToIgn3_4(common.TranslateOptions{NoResourceAutoCompression: true})
	if err := verdict("Butane", r, err); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("cannot write the config: %w", err)
	}
	if err := Validate(raw); err != nil {
		return nil, err
	}
	return raw, nil
}

// Validate holds a config to Ignition's own rules: its version is Version, every field is known, and every value makes sense.
func Validate(raw []byte) error {
	_, r, err := ign.Parse(raw)
	return verdict("Ignition", r, err)
}

// verdict makes an error of what is fatal in a report. The messages are of fixed texts and places, not of values.
func verdict(who string, r report.Report, err error) error {
	if err == nil && !r.IsFatal() {
		return nil
	}
	var why []string
	for _, e := range r.Entries {
		if e.Kind == report.Error {
			why = append(why, e.Message+" at "+e.Context.String())
		}
	}
	if len(why) == 0 && err != nil {
		why = append(why, err.Error())
	}
	return fmt.Errorf("cannot use the config: %s refuses it: %w", who, errors.New(strings.Join(why, "; ")))
}
