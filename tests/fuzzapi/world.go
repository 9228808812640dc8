package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
	"github.com/zoomies-fleet/zoomies/controller"
	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// world is a controller as it is shipped. In every other one its loops run, too: what they say and write is looked at for secrets like the rest, but
// it depends on the clock.
type world struct {
	store    *store.Store
	ctrl     *controller.Controller
	github   *simgithub.Server
	server   *api.Server
	watch    *watch // for secrets
	log      *recorder
	who      []caller
	setup    string // the setup token's file
	password string
	ins      store.Installation
	pool     store.Pool
	sick     string // ID of the host that has a problem
	octo     int64  // GitHub's ID of an installation that is not connected
	host     store.Host
	agent    string // the host's token
	ends     []func() error
}

// caller is somebody who makes requests.
type caller struct {
	name   string
	local  bool
	header http.Header
	weight int
}

// newWorld makes one with everything but users.
func newWorld(ctx context.Context) (w *world, err error) {
	w = &world{watch: newWatch(), log: &recorder{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.close())
		}
	}()
	dir, err := workFolder()
	if err != nil {
		return w, err
	}
	w.ends = append(w.ends, func() error { return os.RemoveAll(dir) })
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	keys, err := secrets.LoadOrCreate(filepath.Join(dir, "keys"))
	if err != nil {
		return w, err
	}
	file := filepath.Join(dir, "zoomies.db")
	holder, err := store.ThisProcess(file)
	if err != nil {
		return w, err
	}
	if w.store, err = store.Open(ctx, store.Options{Path: file, Keys: keys, Holder: holder, Logger: log}); err != nil {
		return w, err
	}
	w.ends = append(w.ends, w.store.Close)
	if err := w.store.AcquireLease(ctx, holder, controller.LeaseTTL, false); err != nil {
		return w, err
	}
	if w.github, err = simgithub.New(simgithub.Options{Limits: simgithub.Limits{}}); err != nil {
		return w, err
	}
	w.ends = append(w.ends, w.github.Close)
	w.ctrl, err = controller.New(ctx, controller.Options{
		Store: w.store, Holder: holder, Settings: controller.DefaultSettings(), Version: "fuzz", Logger: log, GitHub: controller.GitHubClients(1000),
	})
	if err != nil {
		return w, err
	}
	sign := signin.New(signin.Options{Store: w.store, Logger: log})
	w.setup = filepath.Join(dir, "setup-token")
	if _, err := sign.PrepareSetup(ctx, w.setup); err != nil {
		return w, err
	}
	const many = 1 << 30
	w.server = api.New(api.Options{
		Store: w.store, Fleet: w.ctrl, SignIn: sign, Version: "fuzz", Logger: log, Rest: w.ctrl.Handler(),
		Limits: api.Limits{Client: many, Address: many, Host: many}, PublicURL: "http://127.0.0.1:8080", GitHub: w.onlyGitHub(),
	})
	if err := w.seed(ctx); err != nil {
		return w, fmt.Errorf("cannot make a fleet to try: %w", err)
	}
	w.who = []caller{{name: "nobody", weight: 2}, {name: "owner", local: true, weight: 4}}
	return w, nil
}

// loops runs the controller's loops until the world ends.
func (w *world) loops(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- w.ctrl.Run(ctx) }()
	w.ends = append(w.ends, func() error { cancel(); return <-done })
}

// workFolder is in memory where the machine has room there: every write waits for the disk.
func workFolder() (string, error) {
	if dir, err := os.MkdirTemp("/dev/shm", "zoomies-fuzz-*"); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", "zoomies-fuzz-*")
}

// onlyGitHub reaches the simulated GitHub and nothing else, whatever address a request names.
func (w *world) onlyGitHub() *http.Client {
	want := strings.TrimPrefix(w.github.URL(), "http://")
	want, _, _ = strings.Cut(want, "/")
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if address != want {
				return nil, errors.New("there is no other host in this world")
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	}}
}

func (w *world) close() error {
	var errs []error
	for _, v := range slices.Backward(w.ends) {
		errs = append(errs, v())
	}
	w.ends = nil
	return errors.Join(errs...)
}

// seed writes a fleet with something of every kind, each secret of it watched for.
func (w *world) seed(ctx context.Context) (err error) {
	app := w.github.App()
	w.watch.key("the App's key", string(app.PrivateKeyPEM))
	w.watch.add("the App's webhook secret", app.WebhookSecret)
	ghID := w.github.AddInstallation("acme", "Organization")
	w.github.AddRepository(ghID, "acme/widgets")
	w.octo = w.github.AddInstallation("octo", "Organization")
	w.ins, err = w.store.CreateInstallation(ctx, store.Installation{
		Name: "acme", BaseURL: w.github.URL(), AppID: app.ID, InstallationID: ghID, Account: "acme", AccountType: "Organization",
		PrivateKey: secrets.Of(string(app.PrivateKeyPEM)), WebhookSecret: secrets.Of(app.WebhookSecret),
	})
	if err != nil {
		return err
	}
	for i := range 2 { // without pools
		_, err := w.store.CreateInstallation(ctx, store.Installation{
			Name: fmt.Sprintf("spare-%d", i), BaseURL: w.github.URL(), AppID: app.ID, InstallationID: ghID + 1000 + int64(i), Account: "spare", AccountType: "Organization",
			PrivateKey: secrets.Of(string(app.PrivateKeyPEM)), WebhookSecret: secrets.Of(w.watch.fresh("a webhook secret")),
		})
		if err != nil {
			return err
		}
	}
	for i := range 3 {
		_, err := w.store.CreateGitHubApp(ctx, store.GitHubApp{
			BaseURL: w.github.URL(), AppID: app.ID + int64(i), Slug: fmt.Sprintf("fleet-%d", i), Name: fmt.Sprintf("Fleet %d", i), Owner: "acme",
			PrivateKey: secrets.Of(string(app.PrivateKeyPEM)), WebhookSecret: secrets.Of(w.watch.fresh("an App's webhook secret")),
		})
		if err != nil {
			return err
		}
	}
	for i := range 4 {
		p, err := w.store.CreatePool(ctx, store.Pool{
			Name: fmt.Sprintf("pool-%d", i), InstallationID: w.ins.ID, Labels: []string{"linux", fmt.Sprintf("size-%d", i)}, Backend: "podman",
			Image: "localhost/runner:test", Max: 10, Enabled: true, Ephemeral: true,
		})
		if err != nil {
			return err
		}
		if i == 0 {
			w.pool = p
		}
	}
	if err := w.seedHosts(ctx); err != nil {
		return err
	}
	return w.seedWork(ctx)
}

func (w *world) seedHosts(ctx context.Context) error {
	for i := range 4 {
		name := fmt.Sprintf("host-%d", i)
		token, err := w.ctrl.NewJoinToken(ctx, name, false, time.Hour)
		if err != nil {
			return err
		}
		w.watch.token("a join token", token)
		broken := ""
		if i == 3 {
			broken = "no such file" // so that there is a problem
		}
		joined, err := w.ctrl.Agents().Join(ctx, protocol.JoinRequest{Token: token, Name: name, Version: "fuzz", Protocol: protocol.Version, Host: protocol.HostInfo{
			OS: "linux", Arch: "amd64", CPUs: 8, MemoryMB: 16384, Capacity: 10, Backends: []protocol.BackendInfo{{Name: "podman", CPULimit: true, MemoryLimit: true, Error: broken}},
		}})
		if err != nil {
			return err
		}
		w.watch.token("an agent's token", joined.AgentToken)
		if broken != "" {
			w.sick = joined.HostID
		}
		if i == 0 {
			w.agent = joined.AgentToken
			if w.host, err = w.store.Host(ctx, joined.HostID); err != nil {
				return err
			}
		}
	}
	return nil
}

// seedWork makes jobs in every state, and runners, of which one has a task with a registration in it.
func (w *world) seedWork(ctx context.Context) error {
	var runners []store.Runner
	for i := range 8 {
		runners = append(runners, store.Runner{
			Name: fmt.Sprintf("zoomies-fuzz-%d", i), PoolID: w.pool.ID, HostID: w.host.ID, InstallationID: w.ins.ID, Backend: "podman", Image: "localhost/runner:test", Ephemeral: true,
		})
	}
	if err := w.store.CreateRunners(ctx, runners); err != nil {
		return err
	}
	create := protocol.Task{Kind: protocol.TaskCreate, RunnerID: runners[0].ID, Create: &protocol.CreateRunner{JITConfig: w.watch.fresh("a runner's registration")}}
	if _, _, err := w.store.EnqueueTask(ctx, store.Task{HostID: w.host.ID, RunnerID: runners[0].ID, Kind: string(protocol.TaskCreate), Payload: mustJSON(create)}); err != nil {
		return err
	}
	for _, r := range runners[3:] {
		for _, to := range []store.RunnerState{store.RunnerRegistering, store.RunnerIdle} {
			if _, _, err := w.store.TransitionRunner(ctx, r.ID, to, store.Change{WorkloadID: "workload"}); err != nil {
				return err
			}
		}
	}
	for i := range 8 {
		id := w.github.QueueJob(simgithub.JobSpec{Repository: "acme/widgets", Labels: []string{"self-hosted", "linux"}})
		state := store.JobQueued
		if i%2 == 0 {
			w.github.CancelJob(id)
			state = store.JobCompleted
		}
		j := w.github.Job(id)
		_, err := w.store.UpsertJob(ctx, store.JobUpdate{
			InstallationID: w.ins.ID, GitHubID: id, RunID: j.RunID, RunAttempt: 1, Repository: "acme/widgets", Workflow: "CI", Name: "build",
			Labels: j.Labels, State: state, Conclusion: j.Conclusion,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// people makes users and tokens of every role, wide and narrow.
func (w *world) people(ctx context.Context) error {
	w.password = w.watch.fresh("a password")
	hash := auth.HashPassword(w.password)
	w.watch.add("a password's hash", hash[strings.LastIndex(hash, "$")+1:])
	fleet := func(r auth.Role) store.Grant { return store.Grant{Role: string(r), ScopeKind: store.ScopeFleet} }
	for _, p := range []struct {
		name   string
		grants []store.Grant
		scopes []string
		weight int
	}{
		{"root", []store.Grant{fleet(auth.Platform)}, []string{"*"}, 12},
		{"ada", []store.Grant{fleet(auth.Admin)}, []string{"*"}, 5},
		{"otto", []store.Grant{fleet(auth.Operator)}, []string{"*"}, 3},
		{"vera", []store.Grant{fleet(auth.Viewer)}, []string{"*"}, 3},
		{"ina", []store.Grant{{Role: string(auth.Admin), ScopeKind: store.ScopeInstallation, ScopeID: w.ins.ID}}, []string{"*"}, 4},
		{"paul", []store.Grant{{Role: string(auth.Operator), ScopeKind: store.ScopePool, ScopeID: w.pool.ID}}, []string{"*"}, 2},
		{"pia", []store.Grant{{Role: string(auth.Viewer), ScopeKind: store.ScopePool, ScopeID: w.pool.ID}}, []string{"*"}, 2},
		{"nina", nil, []string{"*"}, 1},
		{"sam", []store.Grant{fleet(auth.Platform)}, []string{"pools:read", "jobs:write"}, 2},
	} {
		u, err := w.store.CreateUser(ctx, store.User{Name: p.name, Source: "local", PasswordHash: hash, Grants: p.grants})
		if err != nil {
			return err
		}
		token := auth.NewToken(auth.PrefixAPI)
		w.watch.token("an API token", token)
		_, err = w.store.CreateAPIToken(ctx, store.APIToken{Name: "of-" + p.name, Hash: auth.HashToken(token), UserID: u.ID, Scopes: p.scopes, Grants: p.grants})
		if err != nil {
			return err
		}
		w.who = append(w.who, caller{name: p.name, header: http.Header{"Authorization": {"Bearer " + token}}, weight: p.weight})
		if err := w.session(ctx, u, p.weight); err != nil {
			return err
		}
	}
	w.who = append(w.who, caller{name: "a stranger with a token", header: http.Header{"Authorization": {"Bearer " + auth.NewToken(auth.PrefixAPI)}}, weight: 1})
	return nil
}

// session signs a user in, with a cookie.
func (w *world) session(ctx context.Context, u store.User, weight int) error {
	cookie := auth.NewToken("")
	w.watch.token("a session's cookie", cookie)
	_, err := w.store.BeginSession(ctx, store.Session{
		Hash: auth.HashToken(cookie), UserID: u.ID, Address: "192.0.2.1", ExpiresAt: time.Now().Add(time.Hour),
	}, u.PasswordHash, "")
	w.who = append(w.who, caller{name: u.Name + " in a browser", header: http.Header{"Cookie": {"zoomies_session=" + cookie}}, weight: (weight + 1) / 2})
	return err
}

// fits are values with which operations get through.
func (w *world) fits() map[string][]string {
	app := w.github.App()
	id := strconv.FormatInt
	fits := map[string][]string{
		"create-installation.base_url": {w.github.URL()}, "start-manifest.base_url": {w.github.URL()}, "public_url": {"http://127.0.0.1:8080"},
		"create-installation.app_id": {id(app.ID, 10)}, "create-installation.installation_id": {id(w.octo, 10), id(w.octo, 10), id(w.ins.InstallationID, 10)},
		"create-installation.account": {"", "octo"}, "create-installation.account_type": {""}, "update-installation.account": {"acme"},
		"sign-in.name": {"root", "ada", "otto", "vera"}, "scope_id": {w.pool.ID, w.ins.ID}, "set-setting.value": {"30s", "2m", "true", "5", "info"},
		"create-pool.installation_id": {w.ins.ID}, "create-token.user_id": {""}, "start-manifest.organization": {"octo", ""},
		"create-token.scopes": auth.TokenScopes(), "create-pool.backend": {"podman", "docker"}, "create-pool.image": {"localhost/runner:test", "debian-13"},
		"If-Match": {"*"}, "dismiss-problem.code": {problems.BackendBroken.String()}, "restore-problem.code": {problems.BackendBroken.String()},
		"dismiss-problem.subject": {w.sick}, "restore-problem.subject": {w.sick},
	}
	if raw, err := os.ReadFile(w.setup); err == nil {
		fits["claim-fleet.token"] = []string{strings.TrimSpace(string(raw))}
	}
	return fits
}
