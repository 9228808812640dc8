package tailcat

import (
	"io"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/tunnel/tunneltest"
)

// BenchmarkFirstByte is a host's first answer, its network stack and greeting included.
func BenchmarkFirstByte(b *testing.B) {
	w := newWorld(b)
	s := w.serve(b)
	echoes(b, s)
	for b.Loop() {
		c := w.join(b, "one")
		if err := ping(dial(b, c)); err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}

// BenchmarkNextConnection is a new connection in an open tunnel, and its first answer.
func BenchmarkNextConnection(b *testing.B) {
	w := newWorld(b)
	s := w.serve(b)
	echoes(b, s)
	c := w.join(b, "one")
	for b.Loop() {
		conn := dial(b, c)
		if err := ping(conn); err != nil {
			b.Fatal(err)
		}
		conn.Close()
	}
}

// BenchmarkThroughput sends in one direction: through the tunnel, and over plain loopback.
func BenchmarkThroughput(b *testing.B) {
	b.Run("tunnel", func(b *testing.B) {
		w := newWorld(b)
		s := w.serve(b)
		l, err := s.Listen(80)
		if err != nil {
			b.Fatal(err)
		}
		throughput(b, l, func() net.Conn { return dial(b, w.join(b, "one")) })
	})
	b.Run("loopback", func(b *testing.B) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		throughput(b, l, func() net.Conn {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			return c
		})
	})
}

func throughput(b *testing.B, l net.Listener, dial func() net.Conn) {
	b.Cleanup(func() { l.Close() })
	got := make(chan int64, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		n, _ := io.Copy(io.Discard, c)
		got <- n
	}()
	c := dial()
	block := make([]byte, 1<<20)
	b.SetBytes(int64(len(block)))
	var sent int64
	for b.Loop() {
		n, err := c.Write(block)
		if err != nil {
			b.Fatal(err)
		}
		sent += int64(n)
	}
	c.Close()
	select {
	case n := <-got:
		if n != sent {
			b.Fatalf("sent %d bytes, %d arrived", sent, n)
		}
	case <-time.After(tunneltest.Patience):
		b.Fatal("not all has arrived")
	}
}

// BenchmarkIdleHost is the heap of one connected host that does nothing.
func BenchmarkIdleHost(b *testing.B) {
	w := newWorld(b)
	echoes(b, w.serve(b))
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	const hosts = 10
	before := heap()
	var open []*Client
	for range hosts {
		c := w.join(b, "host")
		if err := ping(dial(b, c)); err != nil {
			b.Fatal(err)
		}
		open = append(open, c)
	}
	after := heap()
	for b.Loop() {
		runtime.KeepAlive(open)
	}
	// The server's part of it, relay included, is in here too.
	b.ReportMetric(float64(after-before)/hosts/1024, "KiB/host")
}
