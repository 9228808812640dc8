package ignition

import (
	"fmt"
	"regexp"

	base "github.com/coreos/butane/base/v0_5"
)

// Disk is a disk, or one partition of it, for what grows: images and containers of a host, the database of a controller.
type Disk struct {
	// Device is the whole disk, best by a name that stays: /dev/disk/by-id/…
	Device string
	// Partition is the number of the partition to use. 0 takes the whole disk, whose table is then made anew when Wipe
	// says so. Another number leaves the disk's other partitions alone: that one is made where the disk has room, or grown
	// to all the room behind it.
	Partition int
	// Filesystem is ext4, the default, or xfs.
	Filesystem string
	// Wipe makes the filesystem anew although there is one of ours, and on a whole disk the partitions too. Without it a disk that
	// has been used by an earlier machine keeps its data, and one with something foreign on it is refused at boot.
	Wipe bool
}

var deviceForm = regexp.MustCompile(`^/dev/[A-Za-z0-9][A-Za-z0-9._:+-]*(/[A-Za-z0-9][A-Za-z0-9._:+-]*)*$`)

// diskLabel names the partition and its filesystem; XFS takes no more letters.
const diskLabel = "zoomies-data"

func (d Disk) add(c *config, path string) error {
	format := d.Filesystem
	if format == "" {
		format = "ext4"
	}
	switch {
	case !deviceForm.MatchString(d.Device):
		return fmt.Errorf("cannot use %q as a disk: it is no device such as /dev/disk/by-id/scsi-0QEMU_QEMU_HARDDISK_drive-scsi1", d.Device)
	case d.Partition < 0, d.Partition > 128:
		return fmt.Errorf("cannot use partition %d: use 1 to 128, or 0 for the whole disk", d.Partition)
	case format != "ext4" && format != "xfs":
		return fmt.Errorf("cannot make a filesystem of kind %q: use ext4 or xfs", format)
	}
	part := base.Partition{Number: max(d.Partition, 1), Label: new(diskLabel), SizeMiB: new(0), StartMiB: new(0), Resize: new(true)}
	c.Storage.Disks = append(c.Storage.Disks, base.Disk{
		Device: d.Device, WipeTable: new(d.Wipe && d.Partition == 0), Partitions: []base.Partition{part},
	})
	c.Storage.Filesystems = append(c.Storage.Filesystems, base.Filesystem{
		Device: "/dev/disk/by-partlabel/" + diskLabel, Path: &path, Format: &format, Label: new(diskLabel),
		WipeFilesystem: new(d.Wipe), WithMountUnit: new(true),
		// It grows with its partition, whenever that has grown.
		MountOptions: []string{"x-systemd.growfs", "noatime"},
	})
	return nil
}
