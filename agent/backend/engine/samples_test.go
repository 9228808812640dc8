package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/moby/moby/api/pkg/stdcopy"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

func TestOnlyWhatIsThereIsRemembered(t *testing.T) {
	t.Parallel()
	of := map[string]int{"a": 1, "b": 2, "c": 3}
	Keep(of, []backend.Workload{{ID: "b"}, {ID: "d"}})
	if want := map[string]int{"b": 2}; !maps.Equal(of, want) {
		t.Errorf("it kept %v", of)
	}
	var s Samples
	s.Keep(nil) // nothing sampled yet
	if _, ok := s.Known("a"); ok {
		t.Error("it knows what was never sampled")
	}
}

// frame is one piece of an engine's log: a stream's number, three zeros, a length, the bytes.
func frame(stream stdcopy.StdType, text string) []byte {
	return append([]byte{byte(stream), 0, 0, 0, 0, 0, 0, byte(len(text))}, text...)
}

func TestALogIsOneStreamInItsOrder(t *testing.T) {
	t.Parallel()
	raw := bytes.Join([][]byte{frame(stdcopy.Stdout, "one\n"), frame(stdcopy.Stderr, "two\n"), frame(stdcopy.Stdout, "three\n")}, nil)
	log := Demultiplex(io.NopCloser(bytes.NewReader(raw)), func() {}, func(err error) error { return err })
	text, err := io.ReadAll(log)
	if string(text) != "one\ntwo\nthree\n" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	if err := log.Close(); err != nil {
		t.Error(err)
	}
}

func TestABrokenLogSaysSo(t *testing.T) {
	t.Parallel()
	worded := errors.New("cannot read the log")
	log := Demultiplex(io.NopCloser(strings.NewReader("\x09\x00\x00\x00\x00\x00\x00\x01x")), func() {}, func(error) error { return worded })
	if _, err := io.ReadAll(log); !errors.Is(err, worded) {
		t.Errorf("it says %v", err)
	}
}

// endless is a followed log: it gives no more until its request is given up.
type endless struct {
	ctx    context.Context
	closed chan struct{}
}

func (e endless) Read([]byte) (int, error) { <-e.ctx.Done(); return 0, e.ctx.Err() }
func (e endless) Close() error             { close(e.closed); return nil }

func TestClosingALogGivesUpItsRequest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	raw := endless{ctx, make(chan struct{})}
	if err := Demultiplex(raw, cancel, func(err error) error { return err }).Close(); err != nil {
		t.Error(err)
	}
	<-raw.closed
}
