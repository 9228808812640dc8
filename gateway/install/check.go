package install

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zoomies-fleet/zoomies/provider/proxmox/privileges"
)

// hashOf is what the journal knows a capability by.
func hashOf(capability string) string {
	sum := sha256.Sum256([]byte(capability))
	return hex.EncodeToString(sum[:])
}

// problems says all that stands in the way, each with what to do, and chooses the storages. Nothing is changed while anything does.
func (p *Plan) problems(a Answers, f Facts, j Journal) error {
	var bad []error
	add := func(stands bool, format string, args ...any) {
		if stands {
			bad = append(bad, fmt.Errorf(format, args...))
		}
	}
	add(j.Name != "" && j.Name != a.Name, "this node has the gateway of the connection %s: end that first, with zoomies gateway uninstall", j.Name)
	add(f.Unit && !j.Has(Thing{AFile, UnitFile}), "there is a %s that this installer did not write: move it away", UnitFile)
	add(slices.Contains(f.Tokens, a.TokenID()) && !j.Has(Thing{AToken, a.TokenID()}),
		"there is a token %s that this installer did not make: give the connection another name, or remove the token with: pveum user token remove %s %s", a.TokenID(), User, a.Name)
	for _, s := range privileges.Scopes {
		have, there := f.Roles[s.Role()]
		want := privileges.On(s, f.Version)
		add(there && !slices.Equal(have, want) && !j.Has(Thing{ARole, s.Role()}),
			"there is a role %s with other privileges (%s): remove it, or give it those that are needed with: pveum role modify %s --privs %s",
			s.Role(), strings.Join(have, ","), s.Role(), strings.Join(want, ","))
	}
	add(!slices.Contains(f.Bridges, a.Bridge), "there is no bridge %s on the node %s: choose one of %s with --bridge", a.Bridge, f.Node, strings.Join(f.Bridges, ", "))
	storages, err := p.storages(a, f)
	p.Storages = storages
	if err != nil {
		bad = append(bad, err)
	}
	if err := errors.Join(bad...); err != nil {
		return fmt.Errorf("cannot connect this node yet, and nothing was changed: %w", err)
	}
	return nil
}

// kinds are what the connection keeps on storages.
var kinds = []struct{ content, what string }{{"images", "disks"}, {"iso", "config drives"}, {"import", "images of the appliance"}}

// storages are those that were asked for, or else the first that can hold each kind, local before others.
func (p *Plan) storages(a Answers, f Facts) ([]string, error) {
	all := slices.Clone(f.Storages)
	slices.SortFunc(all, func(x, y Storage) int {
		if (x.Name == "local") != (y.Name == "local") {
			if x.Name == "local" {
				return -1
			}
			return 1
		}
		return strings.Compare(x.Name, y.Name)
	})
	var chosen []Storage
	for _, name := range a.Storages {
		i := slices.IndexFunc(all, func(s Storage) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no storage %s that is on for the node %s: choose others with --storage", name, f.Node)
		}
		chosen = append(chosen, all[i])
	}
	for _, k := range kinds {
		holds := func(s Storage) bool { return s.holds(k.content) }
		if slices.ContainsFunc(chosen, holds) {
			continue
		}
		if i := slices.IndexFunc(all, holds); i >= 0 && len(a.Storages) == 0 {
			chosen = append(chosen, all[i])
			continue
		}
		p.Notes = append(p.Notes, note(k.content, k.what, chosen, all))
	}
	var names []string
	for _, s := range chosen {
		if !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("there is no storage for disks and images on the node %s: add one, or say which with --storage", f.Node)
	}
	return names, nil
}

func note(content, what string, chosen, all []Storage) string {
	where := chosen
	if len(where) == 0 {
		where = all
	}
	if len(where) == 0 {
		return fmt.Sprintf("No storage holds %s (%s).", what, content)
	}
	s := where[0]
	return fmt.Sprintf("No storage of this connection holds %s: allow it with: pvesm set %s --content %s,%s", what, s.Name, s.Content, content)
}
