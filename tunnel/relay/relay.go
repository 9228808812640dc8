// Package relay is a DERP relay of our own: it passes sealed packets between the fleet's hosts
// and its controller, on one TLS port with a certificate that clients know by its hash. It lets
// nobody in whose key its owner does not admit, so it is of no use to strangers.
package relay

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tailscale.com/derp/derpserver"
	"tailscale.com/tailcfg"
	"tailscale.com/types/key"

	"github.com/zoomies-fleet/zoomies/tunnel/quiet"
)

// Relay passes packets on. Make one with New, then call Serve.
type Relay struct {
	state State
	admit func(key.NodePublic) bool
	log   *slog.Logger
	derp  *derpserver.Server
	http  *http.Server

	asked    *http.Server // answers the relay library's question whether to let a key in
	lastConn atomic.Uint64

	mu     sync.Mutex
	conns  map[netip.Addr]net.Conn                    // by the alias of a connection
	byKey  map[key.NodePublic]map[netip.Addr]net.Conn // the same, once the key is proven
	closed bool
	wg     sync.WaitGroup
}

// New makes a relay that lets in those whom admit lets in. It opens a loopback port for the
// library's admission question, which has no other way to ask.
func New(state State, admit func(key.NodePublic) bool, log *slog.Logger) (*Relay, error) {
	k, err := state.keys()
	if err != nil {
		return nil, err
	}
	r := &Relay{
		state: state, admit: admit, log: log,
		derp:  derpserver.New(k.node, quiet.Logf(log)),
		conns: make(map[netip.Addr]net.Conn), byKey: make(map[key.NodePublic]map[netip.Addr]net.Conn),
	}
	if err := r.answerAdmission(); err != nil {
		_ = r.derp.Close()
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/derp", r.serveDERP)
	mux.HandleFunc("/derp/probe", derpserver.ProbeHandler)
	mux.HandleFunc("/derp/latency-check", derpserver.ProbeHandler)
	r.http = &http.Server{
		Handler:           mux,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{k.tls}, MinVersion: tls.VersionTLS13, NextProtos: []string{"http/1.1"}},
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){}, // a relay connection is taken over, which HTTP/2 cannot
	}
	return r, nil
}

// State is what it was made of.
func (r *Relay) State() State { return r.state }

// Serve speaks TLS on ln until Close.
func (r *Relay) Serve(ln net.Listener) error {
	err := r.http.ServeTLS(ln, "", "")
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("cannot serve the relay: %w", err)
}

// Cut ends the connections of a key. It says how many there were. Who is still admitted comes
// back by itself.
func (r *Relay) Cut(k key.NodePublic) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.byKey[k] {
		_ = c.Close()
	}
	return len(r.byKey[k])
}

// Connected says whether a key has a connection.
func (r *Relay) Connected(k key.NodePublic) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byKey[k]) > 0
}

// Close ends everything and waits for it.
func (r *Relay) Close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	err := r.http.Close() // the listener and what is not a relay connection yet
	_ = r.derp.Close()
	_ = r.asked.Close()
	r.wg.Wait()
	return err
}

func (r *Relay) serveDERP(w http.ResponseWriter, req *http.Request) {
	if !strings.EqualFold(req.Header.Get("Upgrade"), "derp") {
		http.Error(w, "this is a relay", http.StatusUpgradeRequired)
		return
	}
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, "cannot take the connection over", http.StatusInternalServerError)
		return
	}
	conn, rw, err := hijacker.Hijack()
	if err != nil {
		return
	}
	alias, ok := r.enter(conn)
	if !ok {
		_ = conn.Close()
		return
	}
	defer r.leave(alias)
	pub := r.derp.PublicKey()
	_, _ = fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: DERP\r\nConnection: Upgrade\r\nDerp-Version: 2\r\nDerp-Public-Key: %s\r\n\r\n", pub.UntypedHexString()) //nolint:staticcheck // the form that DERP clients read
	r.derp.Accept(context.WithoutCancel(req.Context()), conn, bufio.NewReadWriter(rw.Reader, rw.Writer), netip.AddrPortFrom(alias, 1).String())
}

// enter gives a connection an alias: an address that the library hands back with the question
// whether the connection's key is let in. So a key's connections can be found again.
func (r *Relay) enter(conn net.Conn) (netip.Addr, bool) {
	n := r.lastConn.Add(1)
	a := [16]byte{0xfd, 'z', 'o', 'o'}
	for i := range 8 {
		a[15-i] = byte(n >> (8 * i))
	}
	alias := netip.AddrFrom16(a)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return alias, false
	}
	r.conns[alias] = conn
	r.wg.Add(1)
	return alias, true
}

func (r *Relay) leave(alias netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, alias)
	for k, conns := range r.byKey {
		if _, ok := conns[alias]; ok {
			delete(conns, alias)
			if len(conns) == 0 {
				delete(r.byKey, k)
			}
			break
		}
	}
	r.wg.Done()
}

func (r *Relay) prove(alias netip.Addr, k key.NodePublic) bool {
	if !r.admit(k) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	conn := r.conns[alias]
	if conn == nil {
		return false
	}
	if r.byKey[k] == nil {
		r.byKey[k] = make(map[netip.Addr]net.Conn)
	}
	r.byKey[k][alias] = conn
	return true
}

func (r *Relay) answerAdmission() error {
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("cannot listen on loopback for the relay's admission: %w", err)
	}
	path := "/" + rand.Text() // nobody else on this machine is to ask who is admitted
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, req *http.Request) {
		var q tailcfg.DERPAdmitClientRequest
		if err := json.NewDecoder(http.MaxBytesReader(w, req.Body, 4<<10)).Decode(&q); err != nil {
			http.Error(w, "cannot read the question", http.StatusBadRequest)
			return
		}
		allow := r.prove(q.Source, q.NodePublic)
		if !allow {
			r.log.Debug("relay: a key that is not admitted was turned away", "key", q.NodePublic)
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(tailcfg.DERPAdmitClientResponse{Allow: allow}) // the library hears a refusal when this is lost
	})
	r.asked = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = r.asked.Serve(ln) }() // ends with Close
	r.derp.SetVerifyClientURL("http://" + ln.Addr().String() + path)
	return nil
}
