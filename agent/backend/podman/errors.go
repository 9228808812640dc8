package podman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/errorhandling"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// fault turns an error of the bindings into one that the agent can branch on: an answer of
// the engine keeps its text, a transport failure becomes ErrUnavailable, and a context that
// ended stays what it is (it says nothing about the engine).
func fault(doing string, err error) error {
	if err == nil {
		return nil
	}
	var answer *errorhandling.ErrorModel
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("cannot %s: %w", doing, err)
	case errors.As(err, &answer):
		if class := classOf(answer); class != nil {
			return fmt.Errorf("cannot %s: %w: %w", doing, class, err)
		}
		return fmt.Errorf("cannot %s: %w", doing, err)
	case transport(err):
		return fmt.Errorf("cannot %s: %w: %w", doing, backend.ErrUnavailable, err)
	}
	return fmt.Errorf("cannot %s: %w", doing, err)
}

// classOf reads an answer. Podman 4 answers 500 to much that deserves another number, so the
// cause's text is read too.
func classOf(answer *errorhandling.ErrorModel) error {
	text := answer.Because + " " + answer.Message
	switch {
	case strings.Contains(text, "image not known"), strings.Contains(text, "no such image"):
		return backend.ErrImage
	case strings.Contains(text, "already in use"), strings.Contains(text, "already exists"):
		return backend.ErrExists
	case answer.ResponseCode == http.StatusNotFound:
		return backend.ErrNotFound
	case answer.ResponseCode == http.StatusConflict:
		return backend.ErrExists
	}
	return nil
}

func transport(err error) bool {
	var connect bindings.ConnectError
	var op *net.OpError
	var request *url.Error
	return errors.As(err, &connect) || errors.As(err, &op) || errors.As(err, &request) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, net.ErrClosed)
}

// gone says that what was to be removed or read is not there, in any of Podman's words: a
// container can vanish between the look and the act.
func gone(err error) bool {
	var answer *errorhandling.ErrorModel
	if !errors.As(err, &answer) {
		return false
	}
	text := answer.Because + " " + answer.Message
	return answer.ResponseCode == http.StatusNotFound ||
		strings.Contains(text, "no such container") || strings.Contains(text, "no such volume") ||
		strings.Contains(text, "does not exist")
}

// stopped says that a container was not running when it was to be signalled.
func stopped(err error) bool {
	var answer *errorhandling.ErrorModel
	return errors.As(err, &answer) &&
		(answer.ResponseCode == http.StatusConflict ||
			strings.Contains(answer.Because+" "+answer.Message, "container state improper"))
}
