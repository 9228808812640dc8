package api_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// message is one message of a stream. A sign of life has an ID alone.
type message struct{ id, name, data string }

// follower follows events.
type follower struct {
	t    *testing.T
	c    net.Conn
	got  chan message // closed at the stream's end
	last string       // ID of the last message that next returned
}

// follow opens a stream over a connection of its own.
func (r *rig) follow(token, query string, headers ...string) *follower {
	r.t.Helper()
	f := r.open(token, query, headers...)
	f.read()
	return f
}

// open is follow for those who read later.
func (r *rig) open(token, query string, headers ...string) *follower {
	r.t.Helper()
	return &follower{t: r.t, c: r.dial(token, query, headers...), got: make(chan message, 1<<14)}
}

// dial asks for a stream and returns the connection on which it comes.
func (r *rig) dial(token, query string, headers ...string) net.Conn {
	r.t.Helper()
	addr := strings.TrimPrefix(r.url, "http://")
	c, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	text := fmt.Sprintf("GET /api/v1/events%s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n", query, addr, token)
	for i := 0; i+1 < len(headers); i += 2 {
		text += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	if _, err := io.WriteString(c, text+"\r\n"); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// read reads the stream until it ends.
func (f *follower) read() {
	f.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(f.c), nil) //nolint:bodyclose // the stream is read until it ends
	if err != nil {
		f.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(resp.Body)
		f.t.Fatalf("the stream answers %d %v: %s", resp.StatusCode, resp.Header, body)
	}
	go func() {
		defer close(f.got)
		var m message
		lines := bufio.NewReader(resp.Body)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch field {
			case "id":
				m.id = value
			case "event":
				m.name = value
			case "data":
				m.data = value
			case "":
				if m != (message{}) {
					f.got <- m
				}
				m = message{}
			}
		}
	}()
}

// next is the next message that is no sign of life; ok is false when the stream has ended.
func (f *follower) next() (m message, ok bool) {
	f.t.Helper()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for {
		select {
		case m, ok = <-f.got:
			if ok {
				f.last = m.id
			}
			if !ok || m.name != "" {
				return m, ok
			}
		case <-limit.C:
			f.t.Fatalf("nothing came for %s", patience)
		}
	}
}

// want fails the test unless the next message has this name. Those named in skip may come before.
func (f *follower) want(name string, skip ...string) message {
	f.t.Helper()
	for {
		m, ok := f.next()
		if !ok {
			f.t.Fatalf("the stream has ended, and %s should come", name)
		}
		if m.name == name {
			return m
		}
		if !strings.Contains(" "+strings.Join(skip, " ")+" ", " "+m.name+" ") {
			f.t.Fatalf("got %+v, want %s", m, name)
		}
	}
}

// end fails the test unless the stream ends now.
func (f *follower) end() {
	f.t.Helper()
	if m, ok := f.next(); ok {
		f.t.Fatalf("got %+v, and the stream should have ended", m)
	}
}

// cut breaks the connection, and returns where to go on.
func (f *follower) cut() string {
	_ = f.c.Close()
	return f.last
}

// silent opens a stream, and once it has begun reads nothing more.
func (r *rig) silent(token string) {
	r.t.Helper()
	c := r.dial(token, "")
	var got []byte
	buf := make([]byte, 512)
	for !bytes.Contains(got, []byte("event: hello")) {
		_ = c.SetReadDeadline(time.Now().Add(patience))
		n, err := c.Read(buf)
		if err != nil {
			r.t.Fatalf("%v after %s", err, got)
		}
		got = append(got, buf[:n]...)
	}
}

// until waits for a condition that comes true by itself.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick, limit := time.NewTicker(time.Millisecond), time.NewTimer(patience)
	defer tick.Stop()
	defer limit.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("after %s it is not true that %s", patience, what)
		}
	}
}
