package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// fileLayer is a layer in a tar file, not compressed. It is read as often as it is asked for
// and never held in memory: a runner unpacks to more than half a gigabyte.
type fileLayer struct {
	path string
	hash v1.Hash
	size int64
}

// Digest is DiffID: there is no compression between them.
func (l fileLayer) Digest() (v1.Hash, error)             { return l.hash, nil }
func (l fileLayer) DiffID() (v1.Hash, error)             { return l.hash, nil }
func (l fileLayer) Compressed() (io.ReadCloser, error)   { return os.Open(l.path) }
func (l fileLayer) Uncompressed() (io.ReadCloser, error) { return os.Open(l.path) }
func (l fileLayer) Size() (int64, error)                 { return l.size, nil }
func (l fileLayer) MediaType() (types.MediaType, error)  { return types.DockerUncompressedLayer, nil }

// layerWriter packs a layer. Nothing in it is newer than epoch.
type layerWriter struct {
	tar   *tar.Writer
	epoch time.Time
}

// writeLayer packs what fill writes into a file at dest.
func writeLayer(dest string, epoch time.Time, fill func(*layerWriter) error) (fileLayer, error) {
	file, err := os.Create(dest)
	if err != nil {
		return fileLayer{}, fmt.Errorf("cannot pack a layer: %w", err)
	}
	sum := sha256.New()
	w := &layerWriter{tar: tar.NewWriter(io.MultiWriter(file, sum)), epoch: epoch}
	err = fill(w)
	if err == nil {
		err = w.tar.Close()
	}
	size, seekErr := file.Seek(0, io.SeekCurrent)
	if err = errors.Join(err, seekErr, file.Close()); err != nil {
		return fileLayer{}, fmt.Errorf("cannot pack a layer: %w", err)
	}
	return fileLayer{path: dest, hash: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}, size: size}, nil
}

func (w *layerWriter) file(name string, mode int64, data []byte) error {
	return w.entry(&tar.Header{Name: name[1:], Mode: mode, Typeflag: tar.TypeReg, Size: int64(len(data)), ModTime: w.epoch},
		strings.NewReader(string(data)))
}

func (w *layerWriter) dir(name string, mode int64, uid int) error {
	return w.entry(&tar.Header{Name: name[1:] + "/", Mode: mode, Typeflag: tar.TypeDir, Uid: uid, Gid: uid, ModTime: w.epoch}, nil)
}

func (w *layerWriter) link(name, to string) error {
	return w.entry(&tar.Header{Name: name[1:], Mode: 0o777, Typeflag: tar.TypeSymlink, Linkname: to, ModTime: w.epoch}, nil)
}

// entry writes h, without what differs between two builds, and its content.
func (w *layerWriter) entry(h *tar.Header, content io.Reader) error {
	if h.ModTime.After(w.epoch) {
		h.ModTime = w.epoch
	}
	h.ModTime = h.ModTime.Truncate(time.Second)
	h.AccessTime, h.ChangeTime = time.Time{}, time.Time{}
	h.Uname, h.Gname, h.Format = "", "", tar.FormatUnknown
	for key := range h.PAXRecords {
		if !strings.HasPrefix(key, "SCHILY.xattr.") { // file capabilities are kept
			delete(h.PAXRecords, key)
		}
	}
	if err := w.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	if _, err := io.Copy(w.tar, content); err != nil {
		return fmt.Errorf("%s: %w", h.Name, err)
	}
	return nil
}

// rootfs copies a root file system without what belongs to the machine that made it, what a
// container engine provides, and what differs between two builds of the same packages.
func (w *layerWriter) rootfs(from io.Reader) error {
	return eachEntry(from, func(h *tar.Header, content io.Reader) error {
		h.Name = strings.TrimPrefix(h.Name, "./")
		if h.Typeflag == tar.TypeLink {
			h.Linkname = strings.TrimPrefix(h.Linkname, "./")
		}
		if h.Name == "" || foreign(h.Name) {
			return nil
		}
		return w.entry(h, content)
	})
}

func foreign(name string) bool {
	switch name {
	case "etc/hostname", "etc/resolv.conf", "etc/machine-id", "var/lib/dbus/machine-id", "var/cache/ldconfig/aux-cache":
		return true
	}
	for _, dir := range []string{"dev/", "proc/", "sys/", "tmp/", "var/log/", "var/lib/apt/lists/", "var/cache/apt/"} {
		if rest, ok := strings.CutPrefix(name, dir); ok && rest != "" {
			return true
		}
	}
	return false
}

// runner copies the runner's archive to its place in the image, all of it owned by its user.
func (w *layerWriter) runner(archive io.Reader) error {
	unzipped, err := gzip.NewReader(archive)
	if err != nil {
		return fmt.Errorf("the runner's archive is not gzip: %w", err)
	}
	if err := errors.Join(w.dir(runnerHome, 0o755, runnerUser), w.dir(runnerHome+"/_work", 0o755, runnerUser)); err != nil {
		return err
	}
	need := map[string]bool{"run.sh": true, "config.sh": true}
	err = eachEntry(unzipped, func(h *tar.Header, content io.Reader) error {
		inside, err := inArchive(h.Name)
		if err != nil || inside == "." {
			return err
		}
		delete(need, inside)
		h.Name = runnerHome[1:] + "/" + inside
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeSymlink:
		case tar.TypeDir:
			h.Name += "/"
		case tar.TypeLink:
			target, err := inArchive(h.Linkname)
			if err != nil {
				return err
			}
			h.Linkname = runnerHome[1:] + "/" + target
		default:
			return fmt.Errorf("%s is neither a file, a directory nor a link", inside)
		}
		h.Uid, h.Gid, h.Mode = runnerUser, runnerUser, h.Mode&0o777
		return w.entry(h, content)
	})
	if err != nil {
		return fmt.Errorf("cannot unpack the runner's archive: %w", err)
	}
	for name := range need {
		return fmt.Errorf("the archive holds no runner: %s is not in it", name)
	}
	return nil
}

// inArchive cleans a name of an archive and refuses one that leads out of it.
func inArchive(name string) (string, error) {
	clean := path.Clean(name)
	if path.IsAbs(clean) || clean == ".." || strings.HasPrefix(clean, "../") {
		return "", fmt.Errorf("the name %q leads out of the archive", name)
	}
	return clean, nil
}

func eachEntry(from io.Reader, visit func(*tar.Header, io.Reader) error) error {
	r := tar.NewReader(from)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := visit(h, r); err != nil {
			return err
		}
	}
}
