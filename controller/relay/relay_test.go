package relay_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zoomies-fleet/zoomies/controller/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

type bench struct {
	t    *testing.T
	hub  *relay.Hub
	mu   sync.Mutex
	left []string // streams that were abandoned
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t}
	b.hub = relay.New(func(s *relay.Stream) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.left = append(b.left, s.ID())
	})
	return b
}

func (b *bench) join(runner string) *relay.Viewer {
	b.t.Helper()
	v, first, err := b.hub.Join(runner, "host")
	if err != nil {
		b.t.Fatal(err)
	}
	if first && !b.hub.Asked(b.hub.Unasked(runner), "stream-"+runner) {
		b.t.Fatal("a new stream is over")
	}
	return v
}

// send posts to a runner's stream; the pipe is the output, and done says how Send returned.
func (b *bench) send(runner string) (out *io.PipeWriter, done chan error) {
	r, w := io.Pipe()
	done = make(chan error, 1)
	go func() {
		err := b.hub.Send(b.t.Context(), "host", "stream-"+runner, r)
		_ = r.Close() // as an agent does
		done <- err
	}()
	return w, done
}

func (b *bench) next(v *relay.Viewer) relay.Event {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	defer cancel()
	e, err := v.Next(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

// rest reads to the end: the output, how much of it was lost, and the end.
func (b *bench) rest(v *relay.Viewer) (string, int64, relay.End) {
	b.t.Helper()
	var out strings.Builder
	var lost int64
	for {
		switch e := b.next(v); e.Kind {
		case relay.Log:
			out.Write(e.Data)
		case relay.Lost:
			lost += e.Lost
		case relay.TheEnd:
			return out.String(), lost, e.End
		}
	}
}

func write(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

func TestManyWatchOneStream(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	early := []*relay.Viewer{b.join("r"), b.join("r"), b.join("r")}
	out, done := b.send("r")
	write(t, out, "one ")
	if e := b.next(early[0]); string(e.Data) != "one " {
		t.Fatalf("got %+v", e)
	}
	late := b.join("r")
	write(t, out, "two")
	_ = out.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for i, v := range append(early[1:], late) {
		if text, lost, end := b.rest(v); text != "one two" || lost != 0 || end.Reason != relay.Ended {
			t.Errorf("viewer %d: %q, %d lost, %+v", i, text, lost, end)
		}
		v.Close()
	}
	early[0].Close()
	if b.hub.Watched() != 0 || len(b.left) != 0 {
		t.Errorf("%d streams are left, abandoned: %v", b.hub.Watched(), b.left)
	}
}

func TestTheLastOneOutEndsTheStream(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	one, two := b.join("r"), b.join("r")
	out, done := b.send("r")
	write(t, out, "x")
	one.Close()
	one.Close()
	write(t, out, "y")
	select {
	case err := <-done:
		t.Fatalf("the stream ended with the first viewer: %v", err)
	default:
	}
	two.Close() // while a read of the output is under way
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(b.left) != 1 || b.left[0] != "stream-r" || b.hub.Watched() != 0 {
		t.Errorf("abandoned: %v", b.left)
	}
	if err := b.hub.Send(t.Context(), "host", "stream-r", strings.NewReader("late")); !errors.Is(err, relay.ErrNobody) {
		t.Errorf("a post to nobody: %v", err)
	}
	// Whoever comes now begins anew.
	again := b.join("r")
	again.Close()
	if len(b.left) != 2 {
		t.Errorf("abandoned: %v", b.left)
	}
}

func TestASlowViewerLosesTheOldestAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	slow, quick := b.join("r"), b.join("r")
	defer slow.Close()
	defer quick.Close()
	out, done := b.send("r")
	read := make(chan int)
	go func() {
		n := 0
		for {
			e, err := quick.Next(t.Context())
			if err != nil || e.Kind == relay.TheEnd {
				read <- n
				return
			}
			n += len(e.Data) + int(e.Lost)
		}
	}()
	const total = 4 * relay.QueueBytes
	line := strings.Repeat("0123456789abcdef", 64)
	for range total / len(line) {
		write(t, out, line) // never waits for the slow one
	}
	write(t, out, "the end")
	_ = out.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := <-read; n != total+7 {
		t.Errorf("the quick viewer was told of %d bytes of %d", n, total+7)
	}
	if e := b.next(slow); e.Kind != relay.Lost || e.Lost < total-relay.QueueBytes {
		t.Errorf("first comes %+v", e)
	}
	text, lost, _ := b.rest(slow)
	if len(text) > relay.QueueBytes || !strings.HasSuffix(text, "the end") || lost != 0 {
		t.Errorf("kept %d bytes, lost %d more", len(text), lost)
	}
}

func TestALateViewerGetsABoundedTail(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.join("r")
	defer first.Close()
	out, done := b.send("r")
	whole := bytes.Repeat([]byte("0123456789abcdef"), 3*relay.TailBytes/16)
	for part := range slices.Chunk(whole, 1000) {
		write(t, out, string(part))
	}
	got := 0
	for got < len(whole) { // all of it was relayed
		e := b.next(first)
		got += len(e.Data) + int(e.Lost)
	}
	late := b.join("r")
	defer late.Close()
	_ = out.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if text, _, _ := b.rest(late); text != string(whole[len(whole)-relay.TailBytes:]) {
		t.Errorf("the tail is %d bytes", len(text))
	}
}

func TestABrokenPostSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	v := b.join("r")
	defer v.Close()
	out, done := b.send("r")
	write(t, out, "x")
	_ = out.CloseWithError(errors.New("the cable"))
	if err := <-done; err != nil {
		t.Error(err)
	}
	if text, _, end := b.rest(v); text != "x" || end.Reason != relay.Broken {
		t.Errorf("%q %+v", text, end)
	}
	if e := b.next(v); e.Kind != relay.TheEnd {
		t.Errorf("after the end comes %+v", e)
	}
}

func TestOnlyTheHostThatWasAskedSends(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	v := b.join("r")
	defer v.Close()
	for name, c := range map[string][2]string{"another host": {"host-2", "stream-r"}, "another stream": {"host", "stream-x"}, "no stream": {"host", ""}} {
		if err := b.hub.Send(t.Context(), c[0], c[1], strings.NewReader("forged")); !errors.Is(err, relay.ErrNobody) {
			t.Errorf("%s: %v", name, err)
		}
	}
	out, done := b.send("r")
	write(t, out, "x")
	if err := b.hub.Send(t.Context(), "host", "stream-r", strings.NewReader("twice")); !errors.Is(err, relay.ErrNobody) {
		t.Errorf("a second post: %v", err)
	}
	b.hub.Fail("r", relay.End{Reason: relay.Failed}) // says nothing of one that is being sent
	_ = out.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if text, _, end := b.rest(v); text != "x" || end.Reason != relay.Ended {
		t.Errorf("%q %+v", text, end)
	}
}

func TestAStreamThatCannotBeSentEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	v := b.join("r")
	b.hub.Fail("r", relay.End{Reason: relay.Failed, Message: "The host has nothing of it."})
	b.hub.Fail("other", relay.End{})
	if _, _, end := b.rest(v); end.Reason != relay.Failed || end.Message == "" {
		t.Errorf("%+v", end)
	}
	v.Close()
	w := b.join("q")
	out, done := b.send("q")
	write(t, out, "x")
	b.hub.Close(relay.End{Reason: relay.Broken})
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, _, end := b.rest(w); end.Reason != relay.Broken {
		t.Errorf("%+v", end)
	}
	w.Close()
	if len(b.left) != 0 {
		t.Errorf("abandoned: %v", b.left)
	}
	if _, _, end := b.rest(relay.Over(relay.End{Reason: relay.Gone})); end.Reason != relay.Gone {
		t.Errorf("%+v", end)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	x := b.join("z")
	defer x.Close()
	if _, err := x.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAsMuchIsWatchedAsCanBe(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var all []*relay.Viewer
	for range relay.MaxViewers {
		all = append(all, b.join("r"))
	}
	if _, _, err := b.hub.Join("r", "host"); !errors.Is(err, relay.ErrFull) {
		t.Error(err)
	}
	for _, v := range all {
		v.Close()
	}
	b.join("r").Close()
}
