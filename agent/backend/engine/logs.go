package engine

import (
	"context"
	"errors"
	"io"

	"github.com/moby/moby/api/pkg/stdcopy"
)

// Demultiplex makes one stream of the stdout and stderr in raw, in the order in which the
// engine read them. It closes raw at its end; giveUp ends the request when the stream is
// closed before. fault words what goes wrong meanwhile.
func Demultiplex(raw io.ReadCloser, giveUp context.CancelFunc, fault func(error) error) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		defer func() { _ = raw.Close() }()
		_, err := stdcopy.StdCopy(w, w, raw)
		if err != nil && !errors.Is(err, io.ErrClosedPipe) {
			err = fault(err)
		}
		_ = w.CloseWithError(err)
	}()
	return &logReader{PipeReader: r, giveUp: giveUp}
}

// logReader ends the request when it is closed.
type logReader struct {
	*io.PipeReader
	giveUp context.CancelFunc
}

func (l *logReader) Close() error {
	l.giveUp()
	return l.PipeReader.Close()
}
