package proxmox

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"
)

// Options configures a Server. The zero value is OneNode with release 9.2 on a free loopback port, in real time.
type Options struct {
	Version   string // 8.3, 8.4, 9.1 or 9.2 (the default)
	Cluster   Cluster
	Seed      int64 // makes MACs, UUIDs, pids and chances repeatable; 0 is 1
	Clock     Clock // nil is Real
	Scale     float64
	Latencies Latencies
	Driver    Driver // what a machine is when it is started; nil is NullDriver
	Logger    *slog.Logger
	Listener  net.Listener // nil listens on 127.0.0.1:0
	Dir       string       // where the contents of volumes are kept; empty keeps them in memory
}

// releases are what a version calls itself, and the description that it is held to.
var releases = map[string]struct{ full, repoid, table, qemu string }{
	"8.3": {"8.3.5", "dac3aa88bac3f300", "8.4", "9.2.0"},
	"8.4": {"8.4.14", "b502d23c55afcba1", "8.4", "9.2.0"},
	"9.1": {"9.1.4", "5ac30304265fbd8e", "9.1", "10.1.2"},
	"9.2": {"9.2.11", "14a22df35955d97d", "9.1", "10.0.13"},
}

// Server is the simulated cluster. All methods may be called from any goroutine.
type Server struct {
	opts     Options
	log      *slog.Logger
	clock    Clock
	lat      Latencies
	listener net.Listener
	tls      *tls.Config
	cert     *x509.Certificate
	api      api
	driver   Driver

	ctx     context.Context
	cancel  context.CancelFunc
	wg      sync.WaitGroup
	connsMu sync.Mutex
	conns   map[net.Conn]bool

	mu       sync.Mutex
	rng      *rand.Rand
	changed  chan struct{} // closed and replaced at every change
	access   access
	nodes    map[string]*node
	order    []*node
	stores   map[string]*store
	storeIDs []string
	vms      map[int]*vm
	tasks    map[string]*task
	locks    map[int]*vmLock
	changes  []Change
	faults   []*Injection
	requests []Request
	pid      int
	skew     time.Duration
	pmxcfs   bool // the cluster's file system is down
}

// New starts a cluster. It serves until Close.
func New(o Options) (*Server, error) {
	if o.Version == "" {
		o.Version = "9.2"
	}
	release, ok := releases[o.Version]
	if !ok {
		return nil, fmt.Errorf("cannot simulate Proxmox VE %s: want 8.3, 8.4, 9.1 or 9.2", o.Version)
	}
	if o.Seed == 0 {
		o.Seed = 1
	}
	if o.Clock == nil {
		o.Clock = Real{}
	}
	if o.Scale <= 0 {
		o.Scale = 1
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Driver == nil {
		o.Driver = NullDriver{}
	}
	if len(o.Cluster.Nodes) == 0 {
		o.Cluster = OneNode()
	}
	if o.Listener == nil {
		ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("cannot listen for the simulated Proxmox: %w", err)
		}
		o.Listener = ln
	}
	s := &Server{
		opts: o, log: o.Logger, clock: o.Clock, lat: o.Latencies.withDefaults(), listener: o.Listener, api: loadTable()[release.table], driver: o.Driver,
		conns: map[net.Conn]bool{}, changed: make(chan struct{}), access: newAccess(o.Version), nodes: map[string]*node{}, stores: map[string]*store{},
		vms: map[int]*vm{}, tasks: map[string]*task{}, locks: map[int]*vmLock{}, pid: 200,
		rng: rand.New(rand.NewPCG(uint64(o.Seed), 0x9e)), //nolint:gosec // repeatable by design, guards nothing
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.build(o.Cluster)
	if err := s.certify(); err != nil {
		return nil, err
	}
	s.wg.Go(s.accept)
	return s, nil
}

func (s *Server) build(c Cluster) {
	now := s.clock.Now()
	for i, n := range c.Nodes {
		if n.SpoolMB == 0 {
			n.SpoolMB = 8 << 10
		}
		if len(n.Bridges) == 0 {
			n.Bridges = []string{"vmbr0"}
		}
		at := &node{Node: n, index: i, spoolFree: n.SpoolMB << 20, joined: now.Add(-4774 * time.Second), phase: time.Duration(s.rng.Int64N(int64(10 * time.Second)))}
		s.nodes[n.Name] = at
		s.order = append(s.order, at)
	}
	for _, st := range c.Storages {
		s.stores[st.ID] = newStore(st, s.order)
		s.storeIDs = append(s.storeIDs, st.ID)
	}
}

// certify makes the certificate, as a node makes its own.
func (s *Server) certify() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		return fmt.Errorf("cannot make a key: %w", err)
	}
	now := time.Now() // the TLS libraries of clients look at the machine's clock
	t := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: s.order[0].Name, Organization: []string{"Simulated Proxmox"}},
		NotBefore: now.AddDate(-30, 0, 0), NotAfter: now.AddDate(30, 0, 0), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost", s.order[0].Name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(crand.Reader, t, t, key.Public(), key)
	if err != nil {
		return fmt.Errorf("cannot make a certificate: %w", err)
	}
	if s.cert, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("cannot read the certificate: %w", err)
	}
	s.tls = &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}
	return nil
}

// URL is https://host:port, without a path.
func (s *Server) URL() string { return "https://" + s.listener.Addr().String() }

// Fingerprint is the certificate's SHA-256 as Proxmox shows it: hex in pairs with colons.
func (s *Server) Fingerprint() string {
	sum := sha256.Sum256(s.cert.Raw)
	parts := make([]string, len(sum))
	for i, b := range sum {
		parts[i] = fmt.Sprintf("%02X", b)
	}
	return strings.Join(parts, ":")
}

// CA is the certificate in PEM: it has signed itself.
func (s *Server) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.cert.Raw})
}

// Close stops serving, kills the machines and drops every connection.
func (s *Server) Close() error {
	s.cancel()
	err := s.listener.Close()
	s.connsMu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.connsMu.Unlock()
	s.mu.Lock()
	for _, v := range s.vms {
		if v.guest != nil {
			v.guest.Kill()
		}
	}
	s.mu.Unlock()
	s.wg.Wait()
	if err != nil {
		return fmt.Errorf("cannot close the simulated Proxmox: %w", err)
	}
	return nil
}

// Changed is closed at the next change of any state.
func (s *Server) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// touch tells everyone who waits that something changed. Called under mu.
func (s *Server) touch() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// pauser is a clock that wants to know who works.
type pauser interface {
	enter()
	leave()
	pause(ctx context.Context, d time.Duration, request bool) error
}

func (s *Server) enter() {
	if p, ok := s.clock.(pauser); ok {
		p.enter()
	}
}

func (s *Server) leave() {
	if p, ok := s.clock.(pauser); ok {
		p.leave()
	}
}

// pause waits without mu, which the caller holds, and takes it again.
func (s *Server) pause(ctx context.Context, d time.Duration, request bool) error {
	s.mu.Unlock()
	defer s.mu.Lock()
	d = time.Duration(float64(d) * s.opts.Scale)
	if p, ok := s.clock.(pauser); ok {
		return p.pause(ctx, d, request) //nolint:wrapcheck // the context's own
	}
	return s.clock.Sleep(ctx, d) //nolint:wrapcheck // the context's own
}

// uuid is a random UUID. Called under mu.
func (s *Server) uuid() string {
	a, b := s.rng.Uint64(), s.rng.Uint64()
	a = a&^0xf000 | 0x4000
	b = b&^(0x3<<62) | 0x2<<62
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", a>>32, a>>16&0xffff, a&0xffff, b>>48, b&0xffffffffffff)
}

// mac is a random address with Proxmox's prefix. Called under mu.
func (s *Server) mac() string {
	n := s.rng.Uint32()
	return fmt.Sprintf("BC:24:11:%02X:%02X:%02X", n>>16&0xff, n>>8&0xff, n&0xff)
}
