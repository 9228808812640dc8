package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
)

// LocalSocket is where a controller with that data folder answers its machine's owner.
func LocalSocket(dataDir string) string { return filepath.Join(dataDir, "local.sock") }

// serveLocal answers on the local socket until ctx ends. One that an earlier controller left is replaced: that has ended, or this one
// takes over from it.
func serveLocal(ctx context.Context, socket string, h http.Handler, log *slog.Logger) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot replace the local socket: %w", err)
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("cannot listen on the local socket: %w", err)
	}
	if u, ok := ln.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // the path may be a successor's by then (--takeover)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return errors.Join(fmt.Errorf("cannot close the local socket to others: %w", err), ln.Close())
	}
	return serveUntil(ctx, &http.Server{Handler: h, ReadHeaderTimeout: headerRead}, ln, log)
}
