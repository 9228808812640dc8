package proxmox

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// answer is what is written to a client. The standard server writes no reason phrases, in which Proxmox says what is wrong: so
// the connections are served here.
type answer struct {
	status int
	reason string
	kind   string // Content-Type; empty for no body
	body   []byte
	close  bool
	abrupt bool // drops the connection instead
}

const jsonType = "application/json;charset=UTF-8"

// accept serves every connection until the listener is closed.
func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		if !s.begin(c) {
			_ = c.Close()
			return
		}
		s.wg.Go(func() {
			defer s.end(c)
			s.converse(c)
		})
	}
}

func (s *Server) begin(c net.Conn) bool {
	s.connsMu.Lock()
	defer s.connsMu.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.conns[c] = true
	return true
}

func (s *Server) end(c net.Conn) {
	s.connsMu.Lock()
	delete(s.conns, c)
	s.connsMu.Unlock()
	_ = c.Close()
}

// peeked is a connection whose first byte was looked at.
type peeked struct {
	net.Conn
	r *bufio.Reader
}

func (p peeked) Read(b []byte) (int, error) { return p.r.Read(b) } //nolint:wrapcheck // it is the connection

// converse answers the requests of one connection.
func (s *Server) converse(raw net.Conn) {
	first := bufio.NewReader(raw)
	b, err := first.Peek(1)
	if err != nil {
		return
	}
	c := net.Conn(peeked{raw, first})
	secure := b[0] == 0x16 // a TLS handshake
	if secure {
		t := tls.Server(c, s.tls)
		if t.HandshakeContext(s.ctx) != nil {
			return
		}
		c = t
	}
	r := bufio.NewReaderSize(c, 16<<10)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if !secure {
			_ = write(c, req, answer{status: http.StatusMovedPermanently, reason: "Moved Permanently", close: true},
				"Location: https://"+req.Host+req.URL.RequestURI()+"\r\n")
			linger(c, r)
			return
		}
		if !s.one(c, r, req) {
			return
		}
	}
}

// one answers a request, and says whether the connection may be used again.
func (s *Server) one(c net.Conn, r *bufio.Reader, req *http.Request) bool {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.enter()
	a := s.answer(req.WithContext(ctx))
	s.leave()
	if a.abrupt {
		if t, ok := c.(*tls.Conn); ok {
			_ = t.NetConn().Close()
		}
		return false
	}
	if !a.close { // what of the body nobody read
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			a.close = true
		}
	}
	a.close = a.close || req.Close
	if write(c, req, a, s.date()) != nil {
		return false
	}
	if a.close {
		linger(c, r)
	}
	return !a.close
}

// date is the header that says what time it is in the cluster.
func (s *Server) date() string {
	s.mu.Lock()
	skew := s.skew
	s.mu.Unlock()
	return "Date: " + s.clock.Now().Add(skew).UTC().Format(http.TimeFormat) + "\r\n"
}

// linger reads on for a little, so that a client that still sends gets to read the answer.
func linger(c net.Conn, r io.Reader) {
	if t, ok := c.(interface{ CloseWrite() error }); ok {
		_ = t.CloseWrite()
	}
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Second)) // the socket's own time, not the simulation's
	_, _ = io.CopyN(io.Discard, r, 4<<20)
}

// write writes an answer as pveproxy does.
func write(w io.Writer, req *http.Request, a answer, headers string) error {
	var out bytes.Buffer
	connection := "Keep-Alive"
	if a.close {
		connection = "close"
	}
	fmt.Fprintf(&out, "HTTP/1.1 %d %s\r\nCache-Control: max-age=0\r\nConnection: %s\r\nServer: pve-api-daemon/3.0\r\n%s", a.status, a.reason, connection, headers)
	if a.kind != "" {
		fmt.Fprintf(&out, "Content-Type: %s\r\n", a.kind)
	}
	body := a.body
	if len(body) > 1024 && strings.Contains(req.Header.Get("Accept-Encoding"), "gzip") {
		var z bytes.Buffer
		g := gzip.NewWriter(&z)
		_, err := g.Write(body)
		if err := errors.Join(err, g.Close()); err == nil {
			body = z.Bytes()
			out.WriteString("Content-Encoding: gzip\r\n")
		}
	}
	fmt.Fprintf(&out, "Content-Length: %d\r\n\r\n", len(body))
	if req.Method != http.MethodHead {
		out.Write(body)
	}
	if _, err := w.Write(out.Bytes()); err != nil {
		return fmt.Errorf("cannot answer: %w", err)
	}
	return nil
}
