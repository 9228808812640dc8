package store

import (
	"context"
	"errors"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

// GitHubApp is an App that was made through the manifest flow and whose installations take over its keys.
type GitHubApp struct {
	ID            string
	BaseURL       string // as Installation.BaseURL
	AppID         int64
	Slug          string
	Name          string
	Owner         string
	HTMLURL       string
	PrivateKey    secrets.Value
	WebhookSecret secrets.Value
	CreatedAt     time.Time
}

const appColumns columns = "id, base_url, app_id, slug, name, owner, html_url, private_key, webhook_secret, created_at"

const selectApp = "SELECT " + string(appColumns) + " FROM github_apps"

func (s *Store) scanApp(row scanner) (a GitHubApp, err error) {
	var key, hook string
	if err := row.Scan(&a.ID, &a.BaseURL, &a.AppID, &a.Slug, &a.Name, &a.Owner, &a.HTMLURL, &key, &hook, intoTime(&a.CreatedAt)); err != nil {
		return a, err
	}
	rawKey, err1 := s.unseal(key, sealedAppKey.of(a.ID))
	rawHook, err2 := s.unseal(hook, sealedAppHook.of(a.ID))
	a.PrivateKey, a.WebhookSecret = secrets.New(rawKey), secrets.New(rawHook)
	return a, errors.Join(err1, err2)
}

// CreateGitHubApp writes an App, with a new ID unless it has one. ErrConflict when it is known already.
func (s *Store) CreateGitHubApp(ctx context.Context, a GitHubApp) (GitHubApp, error) {
	if a.ID == "" {
		a.ID = NewID(IDApp)
	}
	a.CreatedAt = s.now()
	key, err1 := s.seal(a.PrivateKey.Reveal(), sealedAppKey.of(a.ID))
	hook, err2 := s.seal(a.WebhookSecret.Reveal(), sealedAppHook.of(a.ID))
	if err := errors.Join(err1, err2); err != nil {
		return a, errorf(err, "seal the secrets of App %q", a.Name)
	}
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		_, err := exec(ctx, t, appColumns.insert("github_apps"),
			a.ID, a.BaseURL, a.AppID, a.Slug, a.Name, a.Owner, a.HTMLURL, key, hook, micros(a.CreatedAt))
		return err
	})
	return a, errorf(err, "create App %q", a.Name)
}

// GitHubApps returns the Apps by name.
func (s *Store) GitHubApps(ctx context.Context) ([]GitHubApp, error) {
	list, err := all(ctx, s.readers, s.scanApp, selectApp+" ORDER BY name, id")
	return list, errorf(err, "list the Apps")
}

// GitHubApp returns one App. ErrNotFound when there is none.
func (s *Store) GitHubApp(ctx context.Context, id string) (GitHubApp, error) {
	a, err := one(ctx, s.readers, s.scanApp, selectApp+" WHERE id = ?", id)
	return a, errorf(err, "read App %s", id)
}

// DeleteGitHubApp forgets an App. Its installations keep their keys.
func (s *Store) DeleteGitHubApp(ctx context.Context, id string) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		return execOne(ctx, t, "DELETE FROM github_apps WHERE id = ?", id)
	})
	return errorf(err, "forget App %s", id)
}
