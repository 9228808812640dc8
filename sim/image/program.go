package image

import (
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// program is a static executable.
type program struct {
	data []byte
	arch string // GOARCH
}

var architectures = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// readProgram reads the executable at path and refuses one that needs a dynamic linker: the
// image has none, and the kernel's answer would be a puzzling "no such file".
func readProgram(path string) (program, error) {
	if path == "" {
		return program{}, errNoPath
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return program{}, err
	}
	file, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return program{}, fmt.Errorf("%s is not a Linux program: %w", path, err)
	}
	arch, ok := architectures[file.Machine]
	if !ok {
		return program{}, fmt.Errorf("%s is of the architecture %s, which is not supported", path, file.Machine)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return program{}, fmt.Errorf("%s is not static (a Go program is with CGO_ENABLED=0)", path)
		}
	}
	return program{data: data, arch: arch}, nil
}

// appletsTimeout bounds what is a matter of milliseconds, should path be another program.
const appletsTimeout = 10 * time.Second

// appletsOf asks the BusyBox at path for its applets, sorted.
func appletsOf(path string) ([]string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), appletsTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list the applets of %s: %w", path, err)
	}
	applets := strings.Fields(string(out))
	applets = slices.DeleteFunc(applets, func(a string) bool { return a == "busybox" || strings.Contains(a, "/") })
	slices.Sort(applets)
	applets = slices.Compact(applets)
	if !slices.Contains(applets, "sh") {
		return nil, fmt.Errorf("%s has no shell: it is not a full BusyBox", path)
	}
	return applets, nil
}
