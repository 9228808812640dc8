package layout

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_4/types"
)

// units writes units, their drop-ins and the presets that enable them.
func (m machine) units(units []types.Unit) (Result, error) {
	var r Result
	type preset struct{ word, unit string }
	var presets []preset
	for _, u := range units {
		if strings.Contains(u.Name, "@.") || strings.Contains(u.Name, "/") {
			return r, fmt.Errorf("cannot make the unit %s: neither templates nor paths are supported", u.Name)
		}
		if err := m.unit(u); err != nil {
			return r, fmt.Errorf("cannot make the unit %s: %w", u.Name, err)
		}
		if u.Enabled == nil {
			continue
		}
		word := "disable"
		if *u.Enabled {
			word = "enable"
			r.Enabled = append(r.Enabled, u.Name)
		}
		presets = append(presets, preset{word, u.Name})
	}
	if len(presets) == 0 {
		return r, nil
	}
	slices.SortFunc(presets, func(a, b preset) int { return strings.Compare(a.unit, b.unit) })
	var text strings.Builder
	for _, p := range presets {
		fmt.Fprintf(&text, "%s %s\n", p.word, p.unit)
	}
	if err := m.replace(PresetPath, text.String()); err != nil {
		return r, fmt.Errorf("cannot enable units: %w", err)
	}
	return r, nil
}

func (m machine) unit(u types.Unit) error {
	place := path.Join(unitDir, u.Name)
	if u.Contents != nil && *u.Contents != "" {
		if err := m.replace(place, *u.Contents); err != nil {
			return err
		}
	}
	for _, d := range u.Dropins {
		if d.Contents == nil || *d.Contents == "" {
			continue
		}
		if err := m.replace(path.Join(place+".d", d.Name), *d.Contents); err != nil {
			return err
		}
	}
	if u.Mask == nil || !*u.Mask {
		return nil
	}
	if err := m.gone(place); err != nil {
		return err
	}
	return m.root.Symlink("/dev/null", inside(place))
}

// gone removes what is at a place, and makes its parents.
func (m machine) gone(place string) error {
	if err := m.parents(inside(place)); err != nil {
		return err
	}
	if err := m.root.Remove(inside(place)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// replace writes a file of systemd's, whatever was there.
func (m machine) replace(place, text string) error {
	if err := m.gone(place); err != nil {
		return err
	}
	if err := m.write(inside(place), []byte(text), os.O_CREATE|os.O_EXCL); err != nil {
		return err
	}
	return m.root.Chmod(inside(place), fileMode)
}
