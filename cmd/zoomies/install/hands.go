package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Hands carry steps out.
type Hands struct {
	Root string    // before every path; "" on a machine
	Out  io.Writer // what is being done
	// Command runs a command and returns its output; nil runs it.
	Command func(ctx context.Context, argv []string) ([]byte, error)
	// Own gives a path to a user and a group; nil does.
	Own func(path string, uid, gid int) error
}

func (h *Hands) at(path string) string { return filepath.Join(h.Root, path) }

// Do carries a plan out. It stops at the first step that fails; the same plan, made anew, goes on from there.
func (h *Hands) Do(ctx context.Context, p Plan, keepManifest bool) error {
	m := p.Manifest
	for _, s := range p.Steps {
		fmt.Fprintf(h.Out, "  %s\n", s.What)
		if s.Makes != nil && !m.made(*s.Makes) {
			m.Made = append(m.Made, *s.Makes)
			if err := h.keep(m); err != nil {
				return err
			}
		}
		if err := h.step(ctx, s); err != nil {
			if s.Always {
				fmt.Fprintf(h.Out, "    which did not work, and need not: %v\n", err)
				continue
			}
			return fmt.Errorf("cannot %s: %w; when that is mended, run the same command again", s.What, err)
		}
	}
	if keepManifest {
		return h.keep(m)
	}
	return nil
}

func (h *Hands) keep(m Manifest) error {
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	path := h.at(ManifestFile)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // settings, which hold no secret
		return fmt.Errorf("cannot keep what was installed: %w", err)
	}
	return replace(path, 0o644, func(w io.Writer) error { _, err := w.Write(append(raw, '\n')); return err })
}

func (h *Hands) step(ctx context.Context, s Step) error {
	switch {
	case s.Run != nil:
		_, err := h.command(ctx, s.Run)
		return err
	case s.Write != nil:
		err := replace(h.at(s.Write.Path), s.Write.Mode, func(w io.Writer) error { _, err := io.WriteString(w, s.Write.Text); return err })
		return errors.Join(err, h.own(s.Write.Path, 0, s.Write.Group))
	case s.Folder != nil:
		path := h.at(s.Folder.Path)
		if err := os.MkdirAll(path, s.Folder.Mode); err != nil {
			return err
		}
		return errors.Join(os.Chmod(path, s.Folder.Mode), h.own(s.Folder.Path, s.Folder.Owner, s.Folder.Group))
	case s.Copy != nil:
		from, err := os.Open(s.Copy.From)
		if err != nil {
			return err
		}
		defer func() { _ = from.Close() }() // it was only read
		return replace(h.at(s.Copy.Path), s.Copy.Mode, func(w io.Writer) error { _, err := io.Copy(w, from); return err })
	case s.Remove != "":
		return h.remove(s.Remove)
	case s.Empty != "":
		all, err := os.ReadDir(h.at(s.Empty))
		for _, e := range all {
			err = errors.Join(err, h.remove(filepath.Join(s.Empty, e.Name())))
		}
		return err
	case s.Await != "":
		return awaitReady(ctx, h.at(s.Await))
	case s.Gone != "":
		return h.containersGone(ctx, s.Gone)
	}
	return errors.New("the step does nothing")
}

func (h *Hands) command(ctx context.Context, argv []string) ([]byte, error) {
	if h.Command != nil {
		return h.Command(ctx, argv)
	}
	c := exec.CommandContext(ctx, argv[0], argv[1:]...) // the plan's own words
	c.Dir = "/"                                         // a user that a command runs as may not see this one
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		return out, fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(errs.String()))
	}
	return out, nil
}

func (h *Hands) own(path string, uid, gid int) error {
	if h.Own != nil {
		return h.Own(path, uid, gid)
	}
	return os.Chown(h.at(path), uid, gid)
}

// remove removes a path with all below it, unless something is mounted there.
func (h *Hands) remove(path string) error {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(raw)) {
		if f := strings.Fields(line); len(f) > 4 && (f[4] == h.at(path) || strings.HasPrefix(f[4], h.at(path)+"/")) {
			return fmt.Errorf("%s is mounted: unmount it first", f[4])
		}
	}
	return os.RemoveAll(h.at(path))
}

// managed is the label of every container that an agent has made.
const managed = "label=io.zoomies.managed"

func (h *Hands) containersGone(ctx context.Context, engine string) error {
	ask := func(argv ...string) []string { return append([]string{engine}, argv...) }
	if engine == "podman" {
		m, _, err := loadManifest(h.at(ManifestFile))
		if err != nil {
			return err
		}
		ask = func(argv ...string) []string { return asUser(m.UID, append([]string{engine}, argv...)...) }
	}
	out, err := h.command(ctx, ask("ps", "--all", "--quiet", "--filter", managed))
	if err != nil {
		return err
	}
	ids := strings.Fields(string(out))
	if len(ids) == 0 {
		return nil
	}
	_, err = h.command(ctx, ask(slices.Concat([]string{"rm", "--force", "--volumes"}, ids)...))
	return err
}

// replace writes a file so that a crash leaves the old one or the new one, also while the old one is being run.
func replace(path string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already when all went well
	err = errors.Join(write(f), f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// readyWait is how long a controller may take to become ready; a slow machine needs some of it.
const readyWait = 2 * time.Minute

func localClient(socket string) *http.Client {
	return &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
}

// awaitReady asks until the controller is ready.
func awaitReady(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	client := localClient(socket)
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for {
		err := ready(ctx, client)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w; see why with: journalctl -u %s", err, UnitName)
		case <-again.C:
		}
	}
}

func ready(ctx context.Context, client *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://local/readyz", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // it is only shown
		return fmt.Errorf("it answers %s: %s", resp.Status, body)
	}
	return nil
}
