package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// entry is a file, a directory (its path ends in /) or a symbolic link (link is set).
type entry struct {
	path string // absolute in the image
	mode int64
	uid  int // and gid
	data []byte
	link string
}

// layer is the entries of one layer, in any order.
type layer []entry

func directory(path string, mode int64, uid int) entry {
	return entry{path: path + "/", mode: mode, uid: uid}
}

func executable(path string, data []byte) entry {
	return entry{path: path, mode: 0o755, data: data}
}

// baseLayer is a machine with BusyBox and the runner's account, and without the runner.
func baseLayer(busybox []byte, applets []string) layer {
	l := layer{
		directory("/bin", 0o755, 0),
		directory("/etc", 0o755, 0),
		directory("/home", 0o755, 0),
		directory(Home, 0o755, UserID),
		directory(Home+"/_work", 0o755, UserID),
		directory("/root", 0o700, 0),
		directory("/run", 0o755, 0),
		directory("/tmp", 0o1777, 0),
		directory("/usr", 0o755, 0),
		directory("/usr/bin", 0o755, 0),
		directory("/usr/local", 0o755, 0),
		directory("/usr/local/bin", 0o755, 0),
		directory("/var", 0o755, 0),
		directory("/var/tmp", 0o1777, 0),
		{path: "/etc/passwd", mode: 0o644, data: fmt.Appendf(nil,
			"root:x:0:0:root:/root:/bin/sh\nrunner:x:%d:%d:GitHub Actions runner:%s:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
			UserID, UserID, Home)},
		{path: "/etc/group", mode: 0o644, data: fmt.Appendf(nil, "root:x:0:\nrunner:x:%d:\nnogroup:x:65534:\n", UserID)},
		executable("/bin/busybox", busybox),
		// Where scripts look for it: #!/usr/bin/env.
		{path: "/usr/bin/env", mode: 0o777, link: "/bin/busybox"},
	}
	for _, a := range applets {
		l = append(l, entry{path: "/bin/" + a, mode: 0o777, link: "busybox"})
	}
	return l
}

// tar packs l. The same entries give the same bytes: sorted, one time, no names of owners.
func (l layer) tar() ([]byte, error) {
	sorted := slices.Clone(l)
	slices.SortFunc(sorted, func(a, b entry) int { return cmp.Compare(a.path, b.path) })
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range sorted {
		header := &tar.Header{
			Format: tar.FormatUSTAR, Name: strings.TrimPrefix(e.path, "/"), Mode: e.mode, Uid: e.uid, Gid: e.uid,
			ModTime: epoch, Size: int64(len(e.data)), Typeflag: tar.TypeReg,
		}
		switch {
		case strings.HasSuffix(e.path, "/"):
			header.Typeflag = tar.TypeDir
		case e.link != "":
			header.Typeflag, header.Linkname = tar.TypeSymlink, e.link
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("cannot pack %s: %w", e.path, err)
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, fmt.Errorf("cannot pack %s: %w", e.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("cannot pack a layer: %w", err)
	}
	return buf.Bytes(), nil
}
