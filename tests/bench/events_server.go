package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/zoomies-fleet/zoomies/controller"
	"github.com/zoomies-fleet/zoomies/controller/api"
	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// eventsServer is the argument with which this program serves events and nothing else, so that the memory of those who follow is not
// counted: they are another process.
const eventsServer = "serve-events"

// serving is the first line that the server prints.
type serving struct {
	Address string   `json:"address"`
	Tokens  []string `json:"tokens"` // enough for every follower, each for so many as one token may have
}

// serveEvents serves the API from a fresh store in dir. Each line that it reads is one change of a pool; it ends when there are no more.
func serveEvents(ctx context.Context, dir string, in io.Reader, out io.Writer) (err error) {
	keys, err := secrets.LoadOrCreate(filepath.Join(dir, "zoomies.keys"))
	if err != nil {
		return err
	}
	quiet := slog.New(slog.DiscardHandler)
	st, err := store.Open(ctx, store.Options{Path: filepath.Join(dir, "zoomies.db"), Keys: keys, Logger: quiet})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	ctrl, err := controller.New(ctx, controller.Options{Store: st, Settings: controller.DefaultSettings(), Version: "bench", Logger: quiet, GitHub: noGitHub})
	if err != nil {
		return err
	}
	server := api.New(api.Options{Store: st, Fleet: ctrl, SignIn: signin.New(signin.Options{Store: st}), Version: "bench", Logger: quiet})
	t := &target{store: st}
	if err := t.seed(ctx); err != nil {
		return err
	}
	tokens, err := makeTokens(ctx, st)
	if err != nil {
		return err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: server.Handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = srv.Serve(ln) }()
	defer func() {
		server.Close()
		err = errors.Join(err, srv.Close())
	}()
	if err := json.NewEncoder(out).Encode(serving{ln.Addr().String(), tokens}); err != nil {
		return err
	}
	p := t.pool
	for lines := bufio.NewScanner(in); lines.Scan(); {
		p.Max++
		if err := st.UpdatePool(ctx, p); err != nil {
			return err
		}
		ctrl.Events().Publish(events.PoolChanged, p.ID)
	}
	return nil
}

func makeTokens(ctx context.Context, st *store.Store) (tokens []string, err error) {
	viewer := []store.Grant{{Role: string(auth.Viewer), ScopeKind: store.ScopeFleet}}
	u, err := st.CreateUser(ctx, store.User{Name: "bench", Source: "local", Grants: viewer})
	if err != nil {
		return nil, err
	}
	for i := range (followers + followersEach - 1) / followersEach {
		token := auth.NewToken(auth.PrefixAPI)
		if _, err := st.CreateAPIToken(ctx, store.APIToken{
			Name: fmt.Sprintf("bench-%d", i), Hash: auth.HashToken(token), UserID: u.ID, Scopes: []string{"*"}, Grants: viewer,
		}); err != nil {
			return nil, err
		}
		tokens = append(tokens, token)
	}
	return tokens, nil
}
