package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/serve"
	"github.com/zoomies-fleet/zoomies/controller"
	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// probeHosts is how many hosts have a runner whose output can be asked for: each time that somebody begins to watch it, a task is written
// for that host alone.
const probeHosts = 200

// fleetProcess is the controller that the agents talk to.
type fleetProcess struct {
	store *store.Store
	ctrl  *controller.Controller
}

// fleetControllerMain reads what startFleetController passes.
func fleetControllerMain(ctx context.Context, args []string) error {
	if len(args) != 4 {
		return errors.New("the controller's process is started by this benchmark alone")
	}
	agents, err := strconv.Atoi(args[1])
	if err != nil {
		return fmt.Errorf("cannot read the number of agents: %w", err)
	}
	return runFleetController(ctx, args[0], agents, args[2] == "true", args[3])
}

// runFleetController is the controller's process: it says where it listens and serves until its standard input ends.
func runFleetController(ctx context.Context, dir string, agents int, useTLS bool, profiles string) (err error) {
	serve.KeepSmall()
	p := &fleetProcess{}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	keys, err := secrets.LoadOrCreate(filepath.Join(dir, "zoomies.keys"))
	if err != nil {
		return err
	}
	if p.store, err = store.Open(ctx, store.Options{Path: filepath.Join(dir, "zoomies.db"), Keys: keys, Logger: log}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.store.Close()) }()
	settings := controller.DefaultSettings()
	settings.PollFallback = false // there is no GitHub
	p.ctrl, err = controller.New(ctx, controller.Options{
		Store: p.store, Settings: settings, Version: "bench", Logger: log, GitHub: noGitHub,
	})
	if err != nil {
		return err
	}
	hello := fleetHello{}
	if hello.Hosts, err = p.seed(ctx, agents); err != nil {
		return err
	}
	server := api.New(api.Options{
		Store: p.store, Fleet: p.ctrl, SignIn: signin.New(signin.Options{Store: p.store, Logger: log}), Version: "bench", Logger: log, Rest: p.ctrl.Handler(),
	})
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return p.ctrl.Run(ctx) })
	var conf *tls.Config
	scheme := "http://"
	if useTLS {
		scheme = "https://"
		if conf, hello.CA, err = selfSigned(); err != nil {
			return err
		}
	}
	address, err := serveLoopback(ctx, g, server.Handler(), conf)
	if err != nil {
		return err
	}
	hello.Agents = scheme + address
	if address, err = serveLoopback(ctx, g, p.control(), nil); err != nil {
		return err
	}
	hello.Control = "http://" + address
	raw, err := hello.encode()
	if err != nil {
		return err
	}
	return options{profiles: profiles}.profiled(fmt.Sprintf("scale-%d", agents), func() error {
		if _, err := os.Stdout.Write(append(raw, '\n')); err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, os.Stdin) // until whoever started this ends
		stop()
		return g.Wait()
	})
}

// seed makes the hosts by joining them, and pools for some of them.
func (p *fleetProcess) seed(ctx context.Context, agents int) ([]fleetHost, error) {
	in, err := p.store.CreateInstallation(ctx, store.Installation{
		Name: account, AppID: 1, InstallationID: 1, Account: account, AccountType: "Organization",
		PrivateKey: secrets.Of(strings.Repeat("k", 1700)), WebhookSecret: secrets.Of("webhook-secret"),
	})
	if err != nil {
		return nil, err
	}
	hosts := make([]fleetHost, agents)
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(64)
	for i := range hosts {
		g.Go(func() error {
			name := fmt.Sprintf("host-%04d", i)
			token, err := p.ctrl.NewJoinToken(gctx, name, false, time.Hour)
			if err != nil {
				return err
			}
			info := simHost()
			info.Labels = map[string]string{"probe": name}
			joined, err := p.ctrl.Agents().Join(gctx, protocol.JoinRequest{Token: token, Name: name, Version: "bench", Protocol: protocol.Version, Host: info})
			hosts[i] = fleetHost{ID: joined.HostID, Token: joined.AgentToken}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return hosts, p.seedRunners(ctx, in, hosts[:min(probeHosts, agents)])
}

// seedRunners gives each of the hosts an idle runner, and writes the pools of a fleet of this size.
func (p *fleetProcess) seedRunners(ctx context.Context, in store.Installation, hosts []fleetHost) error {
	var first store.Pool
	for i := range fleetPools {
		pool, err := p.store.CreatePool(ctx, store.Pool{
			Name: fmt.Sprintf("pool-%d", i), InstallationID: in.ID, Labels: []string{"linux", fmt.Sprintf("pool-%d", i)}, Backend: "podman",
			Image: "localhost/runner:bench", Max: 1000, Enabled: true, Ephemeral: true, IdleTimeout: 24 * time.Hour,
		})
		if err != nil {
			return err
		}
		if i == 0 {
			first = pool
		}
	}
	rows := make([]store.Runner, len(hosts))
	for i, h := range hosts {
		rows[i] = store.Runner{
			Name: fmt.Sprintf("runner-%d", i), PoolID: first.ID, HostID: h.ID, InstallationID: in.ID, Backend: "podman", Image: first.Image, Ephemeral: true,
		}
	}
	if err := p.store.CreateRunners(ctx, rows); err != nil {
		return err
	}
	for i, r := range rows {
		hosts[i].Runner = r.ID
		for _, to := range []store.RunnerState{store.RunnerRegistering, store.RunnerIdle} {
			if _, _, err := p.store.TransitionRunner(ctx, r.ID, to, store.Change{WorkloadID: r.Name}); err != nil {
				return err
			}
		}
	}
	return nil
}

// fleetPools is how many pools the fleet has.
const fleetPools = 12

// watchFor is how long somebody watches a runner's output.
const watchFor = 300 * time.Millisecond

// serveLoopback serves as `zoomies controller` does, until ctx ends.
func serveLoopback(ctx context.Context, g *errgroup.Group, h http.Handler, conf *tls.Config) (address string, err error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("cannot listen on loopback: %w", err)
	}
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, TLSConfig: conf,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelWarn),
	}
	context.AfterFunc(ctx, func() { _ = srv.Close() }) // ends Serve
	g.Go(func() error {
		listen := srv.Serve
		if conf != nil {
			listen = func(l net.Listener) error { return srv.ServeTLS(l, "", "") }
		}
		if err := listen(ln); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return ln.Addr().String(), nil
}

// control answers what only this benchmark asks.
func (p *fleetProcess) control() http.Handler {
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(v) // the asker is gone: nothing to do
	}
	mux.HandleFunc("POST /probe", func(w http.ResponseWriter, r *http.Request) {
		row, err := p.store.Runner(r.Context(), r.URL.Query().Get("runner"))
		if err == nil {
			v, werr := p.ctrl.WatchLogs(r.Context(), row)
			if err = werr; err == nil {
				time.AfterFunc(watchFor, v.Close)
			}
		}
		answer(w, nil, err)
	})
	mux.HandleFunc("POST /written", func(w http.ResponseWriter, r *http.Request) {
		var ids []string
		err := json.NewDecoder(r.Body).Decode(&ids)
		at := make([]time.Time, len(ids))
		for i, id := range ids {
			t, terr := p.store.Task(r.Context(), id)
			at[i], err = t.CreatedAt, errors.Join(err, terr)
		}
		answer(w, at, err)
	})
	mux.HandleFunc("POST /figures", func(w http.ResponseWriter, r *http.Request) {
		f := fleetFigures{CPU: cpuTime(), Commits: p.store.Commits(), Goroutines: runtime.NumGoroutine()}
		var err error
		f.RSS, err = peakRSS()
		if r.URL.Query().Get("collect") == "true" {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			f.Heap, f.Stacks = float64(m.HeapAlloc)/(1<<20), float64(m.StackInuse)/(1<<20)
		}
		answer(w, f, err)
	})
	return mux
}

// selfSigned makes a certificate for loopback, as a controller makes one at its first start.
func selfSigned() (*tls.Config, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", fmt.Errorf("cannot make a key: %w", err)
	}
	cert := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, cert, key.Public(), key)
	if err != nil {
		return nil, "", fmt.Errorf("cannot make a certificate: %w", err)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}},
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}
