package install

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/zoomies-fleet/zoomies/provider/proxmox/privileges"
)

// Step is one thing to do. Exactly one of its actions is set.
type Step struct {
	What   string // a sentence without an end, in the imperative
	Makes  *Thing // written down before it is done
	Ends   *Thing // crossed out after it is done
	Always bool   // its failure does not stop the others, and then Ends stays written down

	Run    []string // a command; no shell
	Token  []string // a command that makes the token and prints its secret, which is kept until it is posted
	Write  *File
	Folder *Folder
	Copy   string // this program, to there
	Remove string // a path with all below it
	Post   bool   // give the connection to the controller
	Await  bool   // until the controller can reach the gateway
}

// File is a file to write.
type File struct {
	Path, Text string
	Mode       fs.FileMode
}

// Folder is a folder to make.
type Folder struct {
	Path string
	Mode fs.FileMode
}

// Plan is what to do, in order.
type Plan struct {
	Steps []Step
	// Storages are those that the token is granted.
	Storages []string
	// Notes are what the operator should know besides.
	Notes []string
}

func (p *Plan) add(s Step) { p.Steps = append(p.Steps, s) }

// Install plans to make what the connection needs and is not there. It is pure: what is true of the node is in f, what an earlier run
// has made in j.
func Install(a Answers, f Facts, j Journal) (Plan, error) {
	p := Plan{}
	if err := p.problems(a, f, j); err != nil {
		return p, err
	}
	p.add(Step{What: "make the folder " + KeepDir, Makes: made(AFolder, KeepDir, f.Dirs[KeepDir]), Folder: &Folder{KeepDir, 0o700}})
	p.access(a, f)
	posted := j.Posted != "" && j.Posted == hashOf(a.Capability)
	if !posted {
		p.token(a, f)
	}
	p.service(a, f)
	if !posted {
		p.add(Step{What: "tell the controller", Post: true})
	}
	p.add(Step{What: "forget the token's secret, which the controller has", Remove: secretFile})
	p.add(Step{What: "wait until the controller can reach the gateway", Await: true})
	return p, nil
}

// made is the thing that a step makes, unless it was there before.
func made(k Kind, name string, there bool) *Thing {
	if there {
		return nil
	}
	return &Thing{k, name}
}

// access has pool, roles and user be there, with the user's grants.
func (p *Plan) access(a Answers, f Facts) {
	if !slices.Contains(f.Pools, a.Pool) {
		p.add(Step{What: "make the resource pool " + a.Pool, Makes: &Thing{APool, a.Pool}, Run: []string{"pveum", "pool", "add", a.Pool, "--comment", "machines of Zoomies"}})
	}
	for _, s := range privileges.Scopes {
		want := privileges.On(s, f.Version)
		have, there := f.Roles[s.Role()]
		switch {
		case !there:
			p.add(Step{What: "make the role " + s.Role(), Makes: &Thing{ARole, s.Role()}, Run: []string{"pveum", "role", "add", s.Role(), "--privs", strings.Join(want, ",")}})
		case !slices.Equal(have, want): // ours: see problems
			p.add(Step{What: "bring the role " + s.Role() + " up to date", Run: []string{"pveum", "role", "modify", s.Role(), "--privs", strings.Join(want, ",")}})
		}
	}
	if !slices.Contains(f.Users, User) {
		p.add(Step{What: "make the user " + User + ", who has no password", Makes: &Thing{AUser, User}, Run: []string{"pveum", "user", "add", User, "--comment", "Zoomies; signs in by API token alone"}})
	}
	p.grants(a, f, "user", User, nil)
}

// grants gives somebody the three roles where they do not have them.
func (p *Plan) grants(a Answers, f Facts, kind, who string, gone []Grant) {
	for _, g := range grantsFor(a, p.Storages, kind, who) {
		if slices.Contains(f.Grants, g) && !slices.Contains(gone, g) {
			continue
		}
		p.add(Step{What: fmt.Sprintf("grant %s to %s on %s", g.Role, who, g.Path), Makes: &Thing{AGrant, g.key()}, Run: g.command("modify")})
	}
}

// grantsFor are those on the pool, each storage and the bridge.
func grantsFor(a Answers, storages []string, kind, who string) []Grant {
	out := []Grant{{privileges.OnPool.Path(a.Pool), privileges.OnPool.Role(), kind, who}}
	for _, s := range storages {
		out = append(out, Grant{privileges.OnStorage.Path(s), privileges.OnStorage.Role(), kind, who})
	}
	return append(out, Grant{privileges.OnBridge.Path(a.Bridge), privileges.OnBridge.Role(), kind, who})
}

func (g Grant) command(verb string) []string {
	flag := "--users"
	if g.Kind == "token" {
		flag = "--tokens"
	}
	return []string{"pveum", "acl", verb, g.Path, flag, g.Who, "--roles", g.Role}
}

func (g Grant) key() string { return strings.Join([]string{g.Kind, g.Who, g.Role, g.Path}, " ") }

func parseGrant(key string) (Grant, bool) {
	w := strings.Fields(key)
	if len(w) != 4 {
		return Grant{}, false
	}
	return Grant{Path: w[3], Role: w[2], Kind: w[0], Who: w[1]}, true
}

// token makes the token and its grants. The secret of one that is there and was not kept is lost: it is made anew.
func (p *Plan) token(a Answers, f Facts) {
	id := a.TokenID()
	var gone []Grant
	there := slices.Contains(f.Tokens, id)
	if there && !f.Secret {
		p.add(Step{What: "remove the token " + id + ", whose secret nobody has kept", Run: []string{"pveum", "user", "token", "remove", User, a.Name}})
		for _, g := range f.Grants { // they go with it
			if g.Who == id {
				gone = append(gone, g)
			}
		}
	}
	if !there || !f.Secret {
		p.add(Step{
			What: "make the token " + id + ", with rights of its own", Makes: &Thing{AToken, id},
			Token: []string{"pveum", "user", "token", "add", User, a.Name, "--privsep", "1", "--comment", "Zoomies, connection " + a.Name, "--output-format", "json"},
		})
	}
	p.grants(a, f, "token", id, gone)
}

// service installs and starts the gateway.
func (p *Plan) service(a Answers, f Facts) {
	p.add(Step{What: "make the folder " + ProgramDir, Makes: made(AFolder, ProgramDir, f.Dirs[ProgramDir]), Folder: &Folder{ProgramDir, 0o755}})
	if f.Self != ProgramFile {
		p.add(Step{What: "put this program at " + ProgramFile, Copy: f.Self})
	}
	if !f.Dirs[StateDir] && !f.Dirs[privateDir] { // systemd makes both for the service
		p.add(Step{What: "note that the service will keep its identity in " + StateDir, Makes: &Thing{AFolder, StateDir}})
	}
	p.add(Step{What: "write the unit " + UnitName, Makes: made(AFile, UnitFile, f.Unit), Write: &File{UnitFile, unit(a, f.Target), 0o644}})
	p.add(Step{What: "have systemd read its units", Run: []string{"systemctl", "daemon-reload"}})
	p.add(Step{What: "start the gateway with the machine", Makes: &Thing{AUnit, UnitName}, Run: []string{"systemctl", "enable", UnitName}})
	p.add(Step{What: "start the gateway", Run: []string{"systemctl", "restart", UnitName}})
}
