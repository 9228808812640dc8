package controller

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/metrics"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// clients keeps one GitHub client for each installation, so that its token is minted once an hour.
type clients struct {
	make func(store.Installation) (github.API, error)
	mu   sync.Mutex
	all  map[string]client
}

type client struct {
	api       github.API
	updatedAt time.Time // of the installation it was made from
}

func newClients(f func(store.Installation) (github.API, error)) *clients {
	return &clients{make: f, all: map[string]client{}}
}

func (c *clients) get(in store.Installation) (github.API, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, ok := c.all[in.ID]; ok && k.updatedAt.Equal(in.UpdatedAt) {
		return k.api, nil
	}
	api, err := c.make(in)
	if err != nil {
		return nil, fmt.Errorf("cannot use installation %s: %w", in.Name, err)
	}
	c.all[in.ID] = client{api: api, updatedAt: in.UpdatedAt}
	return api, nil
}

// errHeld says that GitHub asked us to leave an installation alone for now.
var errHeld = errors.New("GitHub asked us to wait")

// github returns the client of an installation, unless GitHub asked us to leave it alone.
func (c *Controller) github(ctx context.Context, installationID string) (github.API, store.Installation, error) {
	in, err := c.store.Installation(ctx, installationID)
	if err != nil {
		return nil, in, fmt.Errorf("cannot read installation %s: %w", installationID, err)
	}
	if github.Held(c.now(), in.HoldUntil) {
		return nil, in, fmt.Errorf("%w until %s: %s", errHeld, in.HoldUntil.UTC().Format(time.RFC3339), in.HoldReason)
	}
	api, err := c.clients.get(in)
	if err != nil {
		c.judgeGitHub(in, err)
	}
	return api, in, err
}

// noteGitHub counts a failed call and, when GitHub asked us to wait, holds the installation. It says whether it did.
func (c *Controller) noteGitHub(ctx context.Context, in store.Installation, err error) (held bool) {
	var limit *github.LimitError
	switch {
	case err == nil:
		return false
	case errors.As(err, &limit):
		c.metrics.Inc(metrics.GitHubErrors, "limit")
		c.log.Warn("GitHub asked us to wait", "installation", in.Name, "until", limit.Until, "reason", limit.Reason)
		if err := c.store.HoldInstallation(ctx, in.ID, limit.Until, limit.Reason); err != nil {
			c.log.Error("cannot hold the installation", "installation", in.Name, "err", err)
		}
		return true
	case errors.Is(err, github.ErrUnauthorized):
		c.metrics.Inc(metrics.GitHubErrors, "unauthorized")
	case errors.Is(err, github.ErrUnknown):
		c.metrics.Inc(metrics.GitHubErrors, "unknown")
	default:
		c.metrics.Inc(metrics.GitHubErrors, "other")
	}
	return false
}

// scope is where runners register.
func scope(in store.Installation, repository string) github.Scope {
	if repository != "" {
		return github.Scope{Repository: repository}
	}
	return github.Scope{Org: in.Account}
}
