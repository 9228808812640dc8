package podman

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/cenkalti/backoff/v5"
	"golang.org/x/sys/unix"
)

// Discard ends the service and deletes its containers and its storage. It refuses Podman's own storage: only a service
// that was started with a Root and a RunRoot of its own can be thrown away.
func (s *Service) Discard(ctx context.Context) error {
	if s.opts.Root == "" || s.opts.RunRoot == "" {
		return errors.New("cannot discard Podman's storage: it is the machine's own")
	}
	errs := []error{s.removeAll(ctx), s.Close()}
	if os.Geteuid() != 0 {
		// Files of other users of the namespace can be deleted only from inside it, where Podman 5 also mounts the
		// storage onto itself.
		const remove = `umount -l "$1/overlay" 2>/dev/null; rm -rf "$1"`
		errs = append(errs, s.command(ctx, "unshare", "sh", "-c", remove, "sh", s.opts.Root))
		s.pause().end(stopLimit)
	}
	for _, dir := range []string{s.opts.Root, s.opts.RunRoot} {
		errs = append(errs, deleteStorage(ctx, dir))
	}
	return errors.Join(errs...)
}

// deleteStorage tries for a moment: a clean-up that Podman left running behind an ended container mounts the storage once more.
func deleteStorage(ctx context.Context, dir string) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		return struct{}{}, errors.Join(unmountBelow(dir), os.RemoveAll(dir))
	}, backoff.WithMaxTries(6))
	return err
}

// removeAll asks again when something was left: Podman 4 refuses a container that another one shares the network of, even
// while it removes that one too.
func (s *Service) removeAll(ctx context.Context) error {
	var err error
	for range 3 {
		if err = s.command(ctx, "rm", "--all", "--force", "--time", "0", "--volumes"); err == nil {
			return nil
		}
	}
	return err
}

func (s *Service) command(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, s.opts.Podman, append(s.Args(), args...)...)
	cmd.Env = s.Env()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot run podman %s: %w: %s", args[0], err, out)
	}
	return nil
}

// unmountBelow takes away what Podman keeps mounted in its storage, innermost first.
func unmountBelow(dir string) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("cannot read the mounts: %w", err)
	}
	var points []string
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
			points = append(points, f[4])
		}
	}
	var errs []error
	for _, point := range slices.Backward(points) {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			errs = append(errs, fmt.Errorf("cannot unmount %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}
