package podman

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/containers/podman/v5/pkg/bindings/system"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// answerLimit bounds how long a socket may take to say what it is.
const answerLimit = 10 * time.Second

// Discover returns the socket of a Podman that runs and can run workloads: the user's own
// first, then the system's. When none does the error says what was wrong with each and is
// ErrUnavailable; StartService then starts one.
func Discover(ctx context.Context) (string, error) {
	var errs []error
	for _, socket := range sockets(os.Getenv) {
		err := try(ctx, socket, answerLimit)
		if err == nil {
			return socket, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("cannot find a running Podman: %w: %w", backend.ErrUnavailable, errors.Join(errs...))
}

// sockets in the order of preference: rootless first, since it needs less trust.
func sockets(getenv func(string) string) []string {
	var out []string
	if dir := getenv("XDG_RUNTIME_DIR"); dir != "" {
		out = append(out, filepath.Join(dir, "podman", "podman.sock"))
	}
	return append(out, "/run/podman/podman.sock")
}

func try(ctx context.Context, socket string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := connect(ctx, socket)
	if err != nil {
		return err
	}
	info, err := system.Info(connContext{ctx, conn}, nil)
	if err != nil {
		return fault("ask Podman at "+socket, err)
	}
	if err := usable(info); err != nil {
		return fmt.Errorf("cannot use Podman at %s: %w", socket, err)
	}
	return nil
}
