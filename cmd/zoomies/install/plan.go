package install

import (
	"fmt"
	"io/fs"
	"strconv"
)

// Step is one thing to do. Exactly one of its actions is set.
type Step struct {
	What  string // a sentence without an end, in the imperative
	Makes *Thing // what it leaves on the machine; written down before it is done

	Run    []string // a command; no shell
	Always bool     // its failure does not stop the others
	Write  *File
	Folder *Folder
	Copy   *File  // From another file
	Remove string // a path with all below it
	Empty  string // a folder whose content goes
	Await  string // the local socket on which a controller becomes ready
	Gone   string // an engine, podman or docker, whose containers of runners go
}

// File is a file to write or to copy.
type File struct {
	Path, Text, From string
	Mode             fs.FileMode
	Group            int
}

// Folder is a folder to make.
type Folder struct {
	Path  string
	Mode  fs.FileMode
	Owner int
	Group int
}

// Plan is what to do, in order.
type Plan struct {
	Steps    []Step
	Manifest Manifest // what will have been made, besides the steps' own things
}

// asUser is a command in the service manager of the service's user.
func asUser(uid int, argv ...string) []string {
	return append([]string{"runuser", "-u", UserName, "--", "env", "XDG_RUNTIME_DIR=" + runtimeDir(uid)}, argv...)
}

// Install plans an installation, or brings the binary and the unit of one up to date. It is pure: what is true of the machine is in f.
func Install(a Answers, f Facts, m Manifest) Plan {
	p := Plan{Manifest: m}
	p.Manifest.DataDir, p.Manifest.Backend, p.Manifest.User, p.Manifest.UID = a.DataDir, a.Backend, UserName, f.UID
	add := func(s Step) { p.Steps = append(p.Steps, s) }
	id := strconv.Itoa(f.UID)

	add(Step{What: "make the folder " + EtcDir, Makes: &Thing{AFolder, EtcDir}, Folder: &Folder{Path: EtcDir, Mode: 0o755}})
	if !f.UserThere {
		add(Step{
			What: "make the user " + UserName + ", who cannot sign in", Makes: &Thing{AUser, UserName},
			Run: []string{"useradd", "--system", "--user-group", "--uid", id, "--home-dir", a.DataDir, "--no-create-home", "--shell", "/usr/sbin/nologin", "--comment", "Zoomies", UserName},
		})
	}
	data := &Thing{AFolder, a.DataDir}
	if f.DataThere && !m.made(*data) {
		data = &Thing{Inside, a.DataDir}
	}
	add(Step{What: "make the data folder " + a.DataDir, Makes: data, Folder: &Folder{a.DataDir, 0o700, f.UID, f.GID}})
	if a.Backend == "podman" {
		p.rootless(f, id)
	}
	if !f.Settings {
		add(Step{What: "write the settings", Makes: &Thing{AFile, SettingsFile}, Write: &File{Path: SettingsFile, Text: settings(a, f.UID), Mode: 0o640, Group: f.GID}})
	}
	if f.Self != BinFile {
		var made *Thing
		if !f.BinThere {
			made = &Thing{AFile, BinFile}
		}
		add(Step{What: "put this program at " + BinFile, Makes: made, Copy: &File{Path: BinFile, From: f.Self, Mode: 0o755}})
	}
	add(Step{What: "write the unit " + UnitName, Makes: &Thing{AFile, UnitFile}, Write: &File{Path: UnitFile, Text: unit(a, f.UID), Mode: 0o644}})
	add(Step{What: "have systemd read its units", Run: []string{"systemctl", "daemon-reload"}})
	if a.Boot {
		add(Step{What: "start the service with the machine", Makes: &Thing{AUnit, UnitName}, Run: []string{"systemctl", "enable", UnitName}})
	} else if f.Installed {
		add(Step{What: "start the service by hand alone", Run: []string{"systemctl", "disable", UnitName}})
	}
	add(Step{What: "start the service", Makes: &Thing{AUnit, UnitName}, Run: []string{"systemctl", "restart", UnitName}})
	add(Step{What: "wait until it is ready", Await: a.DataDir + "/local.sock"})
	return p
}

// rootless gives the user a Podman of its own, which needs no root.
func (p *Plan) rootless(f Facts, id string) {
	if !f.SubIDs {
		ids := fmt.Sprintf("%d-%d", f.SubIDsFree, f.SubIDsFree+subIDs-1)
		p.Steps = append(p.Steps, Step{
			What: "give the user " + UserName + " numbers for its containers, " + ids, // they go with the user
			Run:  []string{"usermod", "--add-subuids", ids, "--add-subgids", ids, UserName},
		})
	}
	p.Steps = append(p.Steps,
		Step{What: "let the user's services run without a session", Makes: &Thing{Linger, UserName}, Run: []string{"loginctl", "enable-linger", UserName}},
		Step{What: "start the user's service manager", Run: []string{"systemctl", "start", "user@" + id + ".service"}},
		Step{What: "serve the user's Podman", Run: asUser(f.UID, "systemctl", "--user", "enable", "--now", "podman.socket")},
	)
}

// Uninstall plans to remove what the manifest lists, the latest first; with keep all but the data, its owner and the settings.
func Uninstall(m Manifest, keep bool) Plan {
	var p Plan
	add := func(s Step) { p.Steps = append(p.Steps, s) }
	id := strconv.Itoa(m.UID)
	if m.made(Thing{AUnit, UnitName}) {
		add(Step{What: "stop the service", Run: []string{"systemctl", "disable", "--now", UnitName}, Always: true})
	}
	if m.Backend == "podman" || m.Backend == "docker" {
		add(Step{What: "remove the containers of runners", Gone: m.Backend})
	}
	if m.Backend == "podman" && m.made(Thing{AUser, UserName}) && !keep {
		add(Step{What: "remove the user's images and volumes", Run: asUser(m.UID, "podman", "system", "reset", "--force"), Always: true})
	}
	if m.Backend == "process" {
		add(Step{What: "end the runners that are processes", Run: []string{"systemctl", "kill", "--signal=SIGKILL", UnitName}, Always: true})
	}
	if m.made(Thing{Linger, UserName}) {
		add(Step{What: "no longer serve the user's Podman", Run: asUser(m.UID, "systemctl", "--user", "disable", "--now", "podman.socket"), Always: true})
		add(Step{What: "end the user's services", Run: []string{"loginctl", "disable-linger", UserName}, Always: true})
		add(Step{What: "stop the user's service manager", Run: []string{"systemctl", "stop", "user@" + id + ".service"}, Always: true})
	}
	remove := func(t Thing, what string) {
		if m.made(t) {
			add(Step{What: what, Remove: t.Name})
		}
	}
	add(Step{What: "forget that the service failed", Run: []string{"systemctl", "reset-failed", UnitName}, Always: true})
	remove(Thing{AFile, UnitFile}, "remove the unit")
	add(Step{What: "have systemd read its units", Run: []string{"systemctl", "daemon-reload"}, Always: true})
	if keep {
		remove(Thing{AFile, BinFile}, "remove the program")
		p.Manifest = m
		p.Manifest.Made = nil
		for _, t := range m.Made {
			if t.Kind == AUser || t.Name == m.DataDir || t.Name == SettingsFile || t.Name == EtcDir {
				p.Manifest.Made = append(p.Manifest.Made, t)
			}
		}
		return p
	}
	remove(Thing{AFolder, m.DataDir}, "remove the data folder "+m.DataDir)
	if m.made(Thing{Inside, m.DataDir}) {
		add(Step{What: "empty the data folder " + m.DataDir + ", which was there before", Empty: m.DataDir})
	}
	if m.made(Thing{AUser, UserName}) {
		add(Step{What: "remove the user " + UserName, Run: []string{"userdel", UserName}})
	}
	remove(Thing{AFile, SettingsFile}, "remove the settings")
	remove(Thing{AFile, BinFile}, "remove the program")
	add(Step{What: "forget what was installed", Remove: ManifestFile})
	remove(Thing{AFolder, EtcDir}, "remove the folder "+EtcDir)
	return p
}
