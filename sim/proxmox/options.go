package proxmox

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// needs are the privileges that options of a machine need. What is not here only root can set.
var needs = func() map[string]string {
	out := map[string]string{}
	for priv, opts := range map[string]string{
		"VM.Config.CPU":     "affinity cores cpu cpulimit cpuunits numa smp sockets vcpus",
		"VM.Config.Memory":  "memory balloon shares allow-ksm",
		"VM.Config.HWType":  "acpi hotplug kvm machine scsihw smbios1 tablet vga watchdog audio0 rng0 vmgenid",
		"VM.Config.Options": "agent autostart bios description keyboard localtime migrate_downtime migrate_speed name onboot ostype protection reboot startdate startup tdf template tags",
		"VM.PowerMgmt":      "freeze",
		"VM.Config.Disk":    "boot bootdisk vmstatestorage",
	} {
		for o := range strings.FieldsSeq(opts) {
			out[o] = priv
		}
	}
	return out
}()

var (
	byValue   = regexp.MustCompile(`^(unused|serial|usb|hostpci|virtiofs)\d+$`)
	cloudInit = regexp.MustCompile(`^(cicustom|cipassword|citype|ciuser|ciupgrade|nameserver|searchdomain|sshkeys|ipconfig\d+)$`)
	// notOptions are parameters of the calls that are no options of a machine.
	notOptions = strings.Fields("node vmid pool storage force unique start archive bwlimit live-restore ha-managed import-working-storage delete digest revert skiplock background_delay")
)

// checkOptions checks that somebody may set or delete options. Disks and serial ports depend on the value and are checked elsewhere.
func (s *Server) checkOptions(who string, vmid int, pool string, keys []string) error {
	if who == rootUser {
		return nil
	}
	slices.Sort(keys)
	for _, k := range keys { // what nobody may is said first
		if slices.Contains(notOptions, k) || isDrive(k) || k == "cdrom" || byValue.MatchString(k) || cloudInit.MatchString(k) || needs[k] != "" ||
			strings.HasPrefix(k, "net") || strings.HasPrefix(k, "numa") {
			continue
		}
		return die(fmt.Sprintf("only root can set '%s' config", k))
	}
	for _, k := range keys {
		var err error
		switch {
		case slices.Contains(notOptions, k) || isDrive(k) || k == "cdrom" || byValue.MatchString(k):
			continue
		case needs[k] != "":
			err = s.access.checkVM(who, vmid, pool, needs[k])
			if k == "startup" && err == nil {
				err = s.access.check(who, "/", "Sys.Modify")
			}
		case cloudInit.MatchString(k):
			if err = s.access.checkVM(who, vmid, pool, "VM.Config.Cloudinit"); err != nil {
				err = s.access.checkVM(who, vmid, pool, "VM.Config.Network")
			}
		case strings.HasPrefix(k, "numa"):
			err = s.access.checkVM(who, vmid, pool, "VM.Config.CPU")
		default:
			err = s.access.checkVM(who, vmid, pool, "VM.Config.Network")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// options are the parameters of a call that are options of a machine.
func (c *call) options() map[string]string {
	out := map[string]string{}
	for k, v := range c.params {
		if !slices.Contains(notOptions, k) {
			out[k] = v
		}
	}
	if v, ok := out["cdrom"]; ok {
		delete(out, "cdrom")
		out["ide2"] = v
		if !strings.Contains(v, "media=") {
			out["ide2"] += ",media=cdrom"
		}
	}
	return out
}

var newDisk = regexp.MustCompile(`^(?:([^/:\s]+):)?(\d+(?:\.\d+)?)$`)

// checkStorage checks that somebody may have the disks of the options made or attached.
func (s *Server) checkStorage(who string, vmid int, opts map[string]string, storage string) error {
	for _, k := range slices.Sorted(maps.Keys(opts)) {
		if !isDrive(k) {
			continue
		}
		d := parseDrive(opts[k])
		_, name, _ := strings.Cut(d.file, ":")
		switch g := newDisk.FindStringSubmatch(d.file); {
		case d.file == "none" || d.file == "cloudinit" || name == "cloudinit":
			continue
		case d.file == "cdrom":
			if err := s.access.check(who, "/", "Sys.Console"); err != nil {
				return err
			}
		case !d.cdrom() && g != nil:
			sid := g[1]
			if sid == "" {
				sid = storage
			}
			if sid == "" {
				return die("no storage ID specified (and no default storage)")
			}
			if err := s.access.check(who, "/storage/"+sid, "Datastore.AllocateSpace"); err != nil {
				return err
			}
			st, err := s.storage(sid)
			if err != nil {
				return err
			}
			if !st.holds("images") {
				return wrongField("storage", fmt.Sprintf("storage '%s' does not support vm images", sid))
			}
		default:
			if err := s.mayUse(who, vmid, d.file); err != nil {
				return err
			}
		}
		if from := d.opts["import-from"]; from != "" {
			if strings.HasPrefix(from, "/") {
				return die(fmt.Sprintf("only root can use absolute paths to import from (%s)", from))
			}
			if err := s.mayUse(who, vmid, from); err != nil {
				return err
			}
		}
	}
	return nil
}

var serialName = regexp.MustCompile(`^serial\d+$`)

// checkSerial checks the serial ports of the options. verb is what root alone can do.
func (s *Server) checkSerial(who string, vmid int, pool string, opts map[string]string, verb string) error {
	if who == rootUser {
		return nil
	}
	for _, k := range slices.Sorted(maps.Keys(opts)) {
		switch {
		case !serialName.MatchString(k):
			if strings.HasPrefix(k, "hostpci") || strings.HasPrefix(k, "usb") {
				return die(fmt.Sprintf("only root can set '%s' config for real devices", k))
			}
		case opts[k] != "socket":
			return die(fmt.Sprintf("only root can %s '%s' config for real devices", verb, k))
		default:
			if err := s.access.checkVM(who, vmid, pool, "VM.Config.HWType"); err != nil {
				return err
			}
		}
	}
	return nil
}
