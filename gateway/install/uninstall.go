package install

import (
	"slices"
	"strings"
)

// Uninstall plans to remove what the journal lists and nothing else. What is in use by somebody else by now stays, with a note.
func Uninstall(f Facts, j Journal) Plan {
	var p Plan
	if j.Has(Thing{AUnit, UnitName}) {
		p.add(Step{What: "stop the gateway", Ends: &Thing{AUnit, UnitName}, Run: []string{"systemctl", "disable", "--now", UnitName}})
	}
	if t := (Thing{AFile, UnitFile}); j.Has(t) {
		p.add(Step{What: "remove the unit", Ends: &t, Remove: UnitFile})
		p.add(Step{What: "have systemd read its units", Run: []string{"systemctl", "daemon-reload"}})
	}
	p.endAccess(f, j)
	if t := (Thing{AFolder, StateDir}); j.Has(t) {
		p.add(Step{What: "remove the gateway's identity", Remove: privateDir})
		p.add(Step{What: "remove " + StateDir, Ends: &t, Remove: StateDir})
	}
	if t := (Thing{AFolder, ProgramDir}); j.Has(t) {
		p.add(Step{What: "remove the program", Ends: &t, Remove: ProgramDir})
	}
	p.add(Step{What: "remove what is left of a token's secret", Remove: secretFile})
	return p
}

// endAccess takes back rights before the things that have them.
func (p *Plan) endAccess(f Facts, j Journal) {
	left := slices.Clone(f.Grants)
	for _, t := range slices.Backward(j.Made) {
		g, ok := parseGrant(t.Name)
		if t.Kind != AGrant || !ok {
			continue
		}
		if !slices.Contains(f.Grants, g) || g.Kind == "token" && !slices.Contains(f.Tokens, g.Who) {
			p.gone(t)
			continue
		}
		left = slices.DeleteFunc(left, func(x Grant) bool { return x == g })
		p.add(Step{What: "take " + g.Role + " on " + g.Path + " back from " + g.Who, Ends: &t, Run: g.command("delete")})
	}
	tokens := slices.Clone(f.Tokens)
	for _, t := range j.Made {
		if t.Kind != AToken {
			continue
		}
		if !slices.Contains(tokens, t.Name) {
			p.gone(t)
			continue
		}
		tokens = slices.DeleteFunc(tokens, func(x string) bool { return x == t.Name })
		user, name, _ := strings.Cut(t.Name, "!")
		p.add(Step{What: "remove the token " + t.Name, Ends: &t, Run: []string{"pveum", "user", "token", "remove", user, name}})
	}
	for _, t := range slices.Backward(j.Made) {
		used := slices.ContainsFunc(left, func(g Grant) bool {
			return t.Kind == ARole && g.Role == t.Name || t.Kind == AUser && (g.Who == t.Name || strings.HasPrefix(g.Who, t.Name+"!"))
		})
		used = used || t.Kind == AUser && len(tokens) > 0
		_, isRole := f.Roles[t.Name]
		switch {
		case t.Kind != AUser && t.Kind != ARole && t.Kind != APool:
		case t.Kind == AUser && !slices.Contains(f.Users, t.Name), t.Kind == ARole && !isRole, t.Kind == APool && !slices.Contains(f.Pools, t.Name):
			p.gone(t)
		case used:
			p.Notes = append(p.Notes, "The "+string(t.Kind)+" "+t.Name+" stays: others use it by now.")
			p.gone(t)
		case t.Kind == APool:
			p.add(Step{What: "remove the resource pool " + t.Name + ", if nothing is in it", Ends: &t, Always: true, Run: []string{"pveum", "pool", "delete", t.Name}})
		default:
			p.add(Step{What: "remove the " + string(t.Kind) + " " + t.Name, Ends: &t, Run: []string{"pveum", string(t.Kind), "delete", t.Name}})
		}
	}
}

// gone crosses out what is not there any more, or not ours any more.
func (p *Plan) gone(t Thing) {
	p.add(Step{What: "note that the " + string(t.Kind) + " " + t.Name + " is no longer this installer's", Ends: &t, Makes: &t})
}
