// Package drive writes and reads config drives: small ISO 9660 images with Rock Ridge names, from which a machine takes its Ignition
// config at its first boot. The same input gives the same bytes. It leaves nothing secret on this machine's disk.
package drive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// Label is a volume's name, by which a machine finds its drive.
type Label string

// Labels that first boots look for.
const (
	// OpenStack is what Ignition's openstack platform reads: the appliance's own.
	OpenStack Label = "config-2"
	// NoCloud is what Ignition's proxmoxve platform reads: that of Fedora CoreOS.
	NoCloud Label = "cidata"
)

// Labels are all of them.
var Labels = []Label{OpenStack, NoCloud}

// layout says where a label's readers look.
type layout struct {
	userData string
	others   map[string]string // small files that must be there
}

var layouts = map[Label]layout{
	OpenStack: {userData: "openstack/latest/user_data"},
	NoCloud:   {userData: "user-data", others: map[string]string{"meta-data": ""}},
}

const (
	// MaxUserData is the largest config in bytes that a drive takes.
	MaxUserData = 64 << 20
	sector      = 2048
)

// Write makes a drive with a config on it.
func Write(label Label, userData []byte) ([]byte, error) {
	l, ok := layouts[label]
	switch {
	case !ok:
		return nil, unknown(label)
	case len(userData) == 0:
		return nil, errors.New("cannot write a config drive without a config")
	case len(userData) > MaxUserData:
		return nil, fmt.Errorf("cannot write a config drive: the config has %d bytes, and %d are the most", len(userData), MaxUserData)
	}
	files := map[string][]byte{l.userData: userData}
	for name, text := range l.others {
		files[name] = []byte(text)
	}
	return write(label, files)
}

// Empty makes a drive of that label with nothing on it. Written over another, it leaves nothing of that one's secrets.
func Empty(label Label) ([]byte, error) {
	if _, ok := layouts[label]; !ok {
		return nil, unknown(label)
	}
	return write(label, nil)
}

func unknown(label Label) error {
	return fmt.Errorf("cannot write a config drive with the label %q: use %s or %s", label, OpenStack, NoCloud)
}

// write has go-diskfs lay out an image for files of the right sizes and nothing in them, since it takes them from a folder; what is in
// them goes into the image afterwards, which exists in memory alone.
func write(label Label, files map[string][]byte) (_ []byte, err error) {
	dir, err := os.MkdirTemp("", "zoomies-drive-*")
	if err != nil {
		return nil, fmt.Errorf("cannot write a config drive: %w", err)
	}
	defer func() {
		if rm := os.RemoveAll(dir); err == nil && rm != nil {
			err = fmt.Errorf("cannot clean up after a config drive: %w", rm)
		}
	}()
	for name, content := range files {
		if err := placeholder(filepath.Join(dir, filepath.FromSlash(name)), int64(len(content))); err != nil {
			return nil, fmt.Errorf("cannot write a config drive: %w", err)
		}
	}
	room := 64 * sector
	for _, content := range files {
		room += len(content)
	}
	image := &memory{bytes: make([]byte, 0, room)}
	iso, err := iso9660.Create(image, 0, 0, sector, dir)
	if err == nil {
		err = iso.Finalize(iso9660.FinalizeOptions{RockRidge: true, VolumeIdentifier: string(label), PublisherIdentifier: "zoomies"}) //nolint:misspell // its name
	}
	if err != nil {
		return nil, fmt.Errorf("cannot write a config drive: %w", err)
	}
	out := image.padded()
	copy(out[labelAt:], fmt.Sprintf("%-32s", label)) // filled up with blanks, as the standard has it
	root, err := rootOf(out)
	if err != nil {
		return nil, err
	}
	if err := forget(out, root, 0); err != nil {
		return nil, err
	}
	for name, content := range files {
		place, err := lookup(out, root, strings.Split(name, "/"))
		if err != nil {
			return nil, err
		}
		copy(place, content)
	}
	return out, nil
}

// placeholder makes a file with a size and no content.
func placeholder(path string, size int64) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// Drive is what a reader found.
type Drive struct {
	Label    Label
	UserData []byte // nil on an empty drive
}

// Read reads a drive as a first boot would: the config in the place of the drive's label. A drive without one is no error.
func Read(image []byte) (Drive, error) {
	root, err := rootOf(image)
	if err != nil {
		return Drive{}, err
	}
	label := Label(strings.TrimRight(string(image[labelAt:labelAt+32]), " \x00"))
	l, ok := layouts[label]
	if !ok {
		return Drive{}, fmt.Errorf("cannot use a drive with the label %q: a config drive has %s or %s", label, OpenStack, NoCloud)
	}
	d := Drive{Label: label}
	content, err := lookup(image, root, strings.Split(l.userData, "/"))
	switch {
	case errors.Is(err, errAbsent):
		return d, nil
	case err != nil:
		return Drive{}, err
	case len(content) > MaxUserData:
		return Drive{}, fmt.Errorf("cannot use the drive: its config has %d bytes, and %d are the most", len(content), MaxUserData)
	}
	d.UserData = append([]byte{}, content...)
	return d, nil
}
