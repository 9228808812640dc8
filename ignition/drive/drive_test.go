package drive

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/filesystem/iso9660"
)

// sample is a config of that many bytes, none of which is like its neighbours.
func sample(size int) []byte {
	out := make([]byte, size)
	for i := range out {
		out[i] = byte(i*7 + i/251)
	}
	return out
}

// sizes go around the ends of blocks.
var sizes = []int{1, 2047, 2048, 2049, 1 << 20}

func TestADriveIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	for _, label := range Labels {
		for _, size := range sizes {
			image, err := Write(label, sample(size))
			if err != nil {
				t.Fatal(err)
			}
			d, err := Read(image)
			if err != nil || d.Label != label || !bytes.Equal(d.UserData, sample(size)) {
				t.Errorf("%s, %d bytes: %s with %d bytes, %v", label, size, d.Label, len(d.UserData), err)
			}
			if len(image)%sector != 0 || len(image) > size+60*sector {
				t.Errorf("%s, %d bytes: the image has %d", label, size, len(image))
			}
		}
	}
}

// The library that wrote it is one reader that is not ours.
func TestADriveIsReadByAnother(t *testing.T) {
	t.Parallel()
	for label, name := range map[Label]string{OpenStack: "/openstack/latest/user_data", NoCloud: "/user-data"} {
		image, err := Write(label, sample(5000))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "drive.iso")
		if err := os.WriteFile(path, image, 0o600); err != nil {
			t.Fatal(err)
		}
		disk, err := file.OpenFromPath(path, true)
		if err != nil {
			t.Fatal(err)
		}
		iso, err := iso9660.Read(disk, int64(len(image)), 0, sector)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimRight(iso.Label(), " "); got != string(label) {
			t.Errorf("label %q", got)
		}
		f, err := iso.OpenFile(name, os.O_RDONLY)
		if err != nil {
			t.Fatalf("%s: %v", label, err)
		}
		got, err := io.ReadAll(f)
		if err != nil || !bytes.Equal(got, sample(5000)) {
			t.Errorf("%s: %d bytes, %v", label, len(got), err)
		}
	}
}

// xorriso reads as Linux does, and complains of what is wrong.
func TestADriveIsReadByXorriso(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("xorriso")
	if err != nil {
		t.Skip("xorriso is not installed: the image was read by go-diskfs and by our own reader")
	}
	for label, name := range map[Label]string{OpenStack: "/openstack/latest/user_data", NoCloud: "/user-data"} {
		image, err := Write(label, sample(70000))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "drive.iso"), image, 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), program, "-abort_on", "WARNING", "-indev", "drive.iso", "-pvd_info", "-osirrox", "on", "-extract", name, "out")
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), string(label)) {
			t.Fatalf("%v: %s", err, out)
		}
		got, err := os.ReadFile(filepath.Join(dir, "out"))
		if err != nil || !bytes.Equal(got, sample(70000)) {
			t.Errorf("%s: %d bytes, %v", label, len(got), err)
		}
	}
}

// Nobody can tell from a drive when, where and by whom it was made.
func TestTheSameConfigGivesTheSameDrive(t *testing.T) {
	t.Parallel()
	for _, label := range Labels {
		first, err := Write(label, sample(3000))
		if err != nil {
			t.Fatal(err)
		}
		second, err := Write(label, sample(3000))
		if err != nil || !bytes.Equal(first, second) {
			t.Errorf("%s: two drives differ, %v", label, err)
		}
		root, err := rootOf(first)
		if err != nil {
			t.Fatal(err)
		}
		var walk func(extent)
		walk = func(dir extent) {
			records, err := list(first, dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				stamps := 0
				for _, f := range r.fields() {
					if string(f[:2]) == "TF" {
						stamps += bytes.Count(f[5:], shortMoment)
					}
				}
				if !bytes.Equal(r.bytes[18:25], shortMoment) || stamps != 3 {
					t.Errorf("%s: %q tells when it was made (%d stamps are fixed)", label, r.name, stamps)
				}
				if r.dir && r.name != "" {
					walk(r.extent)
				}
			}
		}
		walk(root)
	}
}

func TestAnEmptyDriveHasNothingOnIt(t *testing.T) {
	t.Parallel()
	for _, label := range Labels {
		image, err := Empty(label)
		if err != nil {
			t.Fatal(err)
		}
		d, err := Read(image)
		if err != nil || d.Label != label || d.UserData != nil || len(image) > 64<<10 {
			t.Errorf("%s: %+v in %d bytes, %v", label, d, len(image), err)
		}
	}
}

func TestDrivesThatAreNotWritten(t *testing.T) {
	t.Parallel()
	if _, err := Write("CIDATA", sample(1)); err == nil || !strings.Contains(err.Error(), "config-2 or cidata") {
		t.Errorf("label: %v", err)
	}
	if _, err := Empty(""); err == nil {
		t.Error("an empty drive without a label")
	}
	if _, err := Write(OpenStack, nil); err == nil {
		t.Error("no config")
	}
	if _, err := Write(OpenStack, make([]byte, MaxUserData+1)); err == nil {
		t.Error("too large")
	}
}

func TestImagesThatAreNotRead(t *testing.T) {
	t.Parallel()
	good, err := Write(OpenStack, sample(10000))
	if err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(b []byte) []byte{
		"nothing":        func([]byte) []byte { return nil },
		"no volume":      func(b []byte) []byte { b[descriptorAt+1] = 'X'; return b },
		"cut off":        func(b []byte) []byte { return b[:len(b)-10*sector] },
		"another label":  func(b []byte) []byte { copy(b[labelAt:], "debian  "); return b },
		"another block":  func(b []byte) []byte { b[descriptorAt+129] = 2; return b },
		"a root of a TB": func(b []byte) []byte { b[rootAt+13] = 0xff; return b },
		"a root outside": func(b []byte) []byte { b[rootAt+4] = 0xff; return b },
	} {
		if d, err := Read(spoil(slices.Clone(good))); err == nil {
			t.Errorf("%s was read: %s with %d bytes", name, d.Label, len(d.UserData))
		}
	}
}

// What go-diskfs writes to keeps the rules of io.
func TestMemoryReadsWhatWasWritten(t *testing.T) {
	t.Parallel()
	m := &memory{}
	if _, err := m.WriteAt([]byte("drive"), 3); err != nil {
		t.Fatal(err)
	}
	if err := iotest.TestReader(m, []byte("\x00\x00\x00drive")); err != nil {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	for _, label := range Labels {
		image, err := Write(label, sample(3000))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(image)
		if image, err = Empty(label); err != nil {
			f.Fatal(err)
		}
		f.Add(image)
	}
	f.Fuzz(func(t *testing.T, image []byte) {
		d, err := Read(image)
		if err != nil && (d.UserData != nil || d.Label != "") {
			t.Errorf("an error and something read: %v", err)
		}
		if len(d.UserData) > len(image) {
			t.Errorf("%d bytes out of %d", len(d.UserData), len(image))
		}
	})
}
