package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// rootfs is what of Debian goes into an image.
type rootfs struct {
	packages []string
	hooks    []string // shell commands with the root's path as $1, after the packages
}

// bootstrapFunc writes the root file system of req and fs to the tar file dest.
type bootstrapFunc func(ctx context.Context, log io.Writer, req request, fs rootfs, dest string) error

// mmdebstrap is the bootstrapFunc that does it: Debian's own tool, which verifies what the
// mirror gives against the archive's keys and gives the same bytes for the same packages.
func mmdebstrap(ctx context.Context, log io.Writer, req request, fs rootfs, dest string) error {
	program, err := exec.LookPath("mmdebstrap")
	if err != nil {
		return errors.New("mmdebstrap is missing: make deps installs it, or apt-get install mmdebstrap")
	}
	if _, err := os.Stat(keyring); err != nil {
		return fmt.Errorf("cannot verify packages: %w; the package debian-archive-keyring has it", err)
	}
	mirrors := []string(req.mirrors)
	if len(mirrors) == 0 {
		if mirrors, err = aptMirrors(ctx, req.system.Suite); err != nil {
			return err
		}
	}
	args := []string{
		"--variant=minbase", "--format=tar", "--mode=auto",
		"--architectures=" + req.arch,
		"--keyring=" + keyring,
		"--include=" + strings.Join(fs.packages, ","),
		`--aptopt=Acquire::Languages "none"`,
		"--dpkgopt=path-exclude=/usr/share/man/*",
		"--dpkgopt=path-exclude=/usr/share/locale/*",
		"--dpkgopt=path-exclude=/usr/share/doc/*",
		"--dpkgopt=path-include=/usr/share/doc/*/copyright",
	}
	for _, hook := range fs.hooks {
		args = append(args, "--customize-hook="+hook)
	}
	args = append(append(args, req.system.Suite, dest), mirrors...)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(req.epoch.Unix(), 10), "LC_ALL=C.UTF-8")
	cmd.Dir = filepath.Dir(dest)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot make the root file system of %s: mmdebstrap: %w; its lines above say why", req.system.Title, err)
	}
	return nil
}

// aptMirrors asks apt where this machine gets Debian from and returns the lines of
// sources.list that give suite from there.
func aptMirrors(ctx context.Context, suite string) ([]string, error) {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(CODENAME)|$(REPO_URI)").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot ask apt for its mirror: %w; name one with --mirror", err)
	}
	lines := mirrorLines(string(out), suite)
	if len(lines) == 0 {
		return nil, errors.New("apt knows no Debian mirror here: run apt-get update, or name one with --mirror 'deb URL SUITE main'")
	}
	return lines, nil
}

// mirrorLines reads what apt-get indextargets printed.
func mirrorLines(targets, suite string) []string {
	var main, security string
	for line := range strings.Lines(targets) {
		f := strings.Split(strings.TrimSpace(line), "|")
		if len(f) != 4 || f[0] != "Debian" {
			continue
		}
		switch {
		case f[1] == "Debian-Security" && security == "":
			security = f[3]
		case f[1] == "Debian" && main == "" && !strings.Contains(f[2], "-"): // not -updates, not -backports
			main = f[3]
		}
	}
	if main == "" {
		return nil
	}
	lines := []string{
		fmt.Sprintf("deb %s %s main", main, suite),
		fmt.Sprintf("deb %s %s-updates main", main, suite),
	}
	if security != "" {
		lines = append(lines, fmt.Sprintf("deb %s %s-security main", security, suite))
	}
	return lines
}
