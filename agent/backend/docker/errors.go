package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// fault turns an error of the client into one that the agent can branch on: an answer of the
// engine keeps its text, a transport failure becomes ErrUnavailable, and a context that ended
// stays what it is.
func fault(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("cannot %s: %w", doing, err)
	case transport(err):
		return fmt.Errorf("cannot %s: %w: %w", doing, backend.ErrUnavailable, err)
	}
	if class := classOf(err); class != nil {
		return fmt.Errorf("cannot %s: %w: %w", doing, class, err)
	}
	return fmt.Errorf("cannot %s: %w", doing, err)
}

// classOf reads an answer. Podman's imitation answers 500 to much that deserves another
// number, so the text is read too.
func classOf(err error) error {
	text := strings.ToLower(err.Error())
	switch {
	case strings.Contains(text, "no such image"), strings.Contains(text, "image not known"):
		return backend.ErrImage
	case strings.Contains(text, "already in use"), strings.Contains(text, "already exists"):
		return backend.ErrExists
	case errdefs.IsNotFound(err):
		return backend.ErrNotFound
	}
	return nil
}

func transport(err error) bool {
	var op *net.OpError
	var request *url.Error
	return client.IsErrConnectionFailed(err) || errors.As(err, &op) || errors.As(err, &request) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

// gone says that what was to be removed or read is not there.
func gone(err error) bool {
	return err != nil && !transport(err) &&
		(errdefs.IsNotFound(err) || strings.Contains(strings.ToLower(err.Error()), "no such container") ||
			strings.Contains(strings.ToLower(err.Error()), "no such volume"))
}

// stopped says that a container was not running when it was to be signalled, or is being
// removed by somebody else.
func stopped(err error) bool {
	return err != nil && (errdefs.IsConflict(err) || errdefs.IsNotModified(err) ||
		strings.Contains(err.Error(), "container state improper"))
}
