package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// GitHubApp is an App that was made through the manifest flow. Its secrets are kept, and never shown.
type GitHubApp struct {
	ID         string    `json:"id" doc:"app_…"`
	BaseURL    string    `json:"base_url" doc:"REST root; empty for github.com"`
	AppID      int64     `json:"app_id" doc:"GitHub's ID"`
	Slug       string    `json:"slug"`
	Name       string    `json:"name"`
	Owner      string    `json:"owner" doc:"Organisation or user"`
	HTMLURL    string    `json:"html_url" doc:"Its page"`
	InstallURL string    `json:"install_url" doc:"Where it is installed on an account"`
	CreatedAt  time.Time `json:"created_at"`
}

// Adoption is what became of the installations that an App has at GitHub.
type Adoption struct {
	Created []Installation        `json:"created" nullable:"false" doc:"Connected now"`
	Known   []Installation        `json:"known" nullable:"false" doc:"Connected before"`
	Skipped []SkippedInstallation `json:"skipped" nullable:"false" doc:"Not connected"`
}

// SkippedInstallation is one that was not connected.
type SkippedInstallation struct {
	InstallationID int64  `json:"installation_id" doc:"GitHub's ID"`
	Account        string `json:"account"`
	Why            string `json:"why"`
}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (GitHubApp) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s)
}

func viewApp(a store.GitHubApp) GitHubApp {
	return GitHubApp{
		ID: a.ID, BaseURL: a.BaseURL, AppID: a.AppID, Slug: a.Slug, Name: a.Name, Owner: a.Owner, HTMLURL: a.HTMLURL,
		InstallURL: installPage(a.BaseURL, a.HTMLURL), CreatedAt: a.CreatedAt,
	}
}

// installPage is where an App is installed. It is empty unless the App's page is one of that GitHub's: browsers are sent there.
func installPage(base, page string) string {
	u, err := url.Parse(page)
	if err != nil || u.Scheme+"://"+u.Host != github.WebURL(base) {
		return ""
	}
	return u.JoinPath("installations", "new").String()
}

type (
	// GitHubAppPath names one in a path; huma looks only into exported types.
	GitHubAppPath struct {
		ID string `path:"id" maxLength:"64" doc:"The App's ID, app_…"`
	}
	appsOutput  struct{ Body Page[GitHubApp] }
	adoptOutput struct{ Body Adoption }
	listApps    struct {
		PageParams
		Sort string `query:"sort" enum:"name,-name,created_at,-created_at" default:"name"`
	}
)

func addGitHubApps(s *Server) {
	register(s, "list-apps", s.listApps)
	register(s, "delete-app", s.deleteApp)
	register(s, "adopt-installations", s.adoptInstallations)
}

func (s *Server) listApps(ctx context.Context, in *listApps) (*appsOutput, error) {
	rows, err := s.store.GitHubApps(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]GitHubApp, len(rows))
	for i, a := range rows {
		all[i] = viewApp(a)
	}
	page, err := paginate(all, in.PageParams, in.Sort, keys[GitHubApp]{
		"name": func(v GitHubApp) string { return v.Name }, "created_at": func(v GitHubApp) string { return timeKey(v.CreatedAt) },
	}, func(v GitHubApp) string { return v.ID })
	return &appsOutput{page}, err
}

func (s *Server) deleteApp(ctx context.Context, in *GitHubAppPath) (*struct{}, error) {
	a, err := s.store.GitHubApp(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return nil, s.do(ctx, change{kind: "github_app", id: a.ID, name: a.Name, before: viewApp(a)}, func(ctx context.Context) error {
		return s.store.DeleteGitHubApp(ctx, in.ID)
	})
}

func (s *Server) adoptInstallations(ctx context.Context, in *GitHubAppPath) (*adoptOutput, error) {
	a, err := s.store.GitHubApp(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	client, err := s.asApp(a)
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, githubPatience)
	defer cancel()
	list, err := client.Installations(asking)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	} else if err != nil {
		return nil, githubProblem(err)
	}
	out, err := s.adopt(ctx, a, list)
	if errors.Is(err, store.ErrConflict) {
		return nil, problem(http.StatusConflict, "Somebody else connected an installation of this App meanwhile.", "Send it again.")
	}
	return &adoptOutput{out}, err
}

// asApp asks GitHub by an App's key.
func (s *Server) asApp(a store.GitHubApp) (*github.App, error) {
	client, err := s.apps.App(a.BaseURL, a.AppID, a.PrivateKey)
	if err != nil {
		return nil, problem(http.StatusConflict, sentence(err), "Forget the App, and connect its installations by a new key.")
	}
	return client, nil
}

// adopt connects the installations that are not connected yet, all or none.
func (s *Server) adopt(ctx context.Context, a store.GitHubApp, list []github.AppInstallation) (Adoption, error) {
	out := Adoption{Created: []Installation{}, Known: []Installation{}, Skipped: []SkippedInstallation{}}
	rows, err := s.store.Installations(ctx)
	if err != nil {
		return out, err
	}
	names, known := map[string]bool{}, map[int64]store.Installation{}
	for _, r := range rows {
		names[r.Name] = true
		if r.BaseURL == a.BaseURL {
			known[r.InstallationID] = r
		}
	}
	var fresh []store.Installation
	for _, in := range list {
		if r, ok := known[in.ID]; ok {
			out.Known = append(out.Known, s.viewInstallation(r))
			continue
		}
		row, why := s.rowOf(a, in)
		if why != "" {
			out.Skipped = append(out.Skipped, SkippedInstallation{InstallationID: in.ID, Account: in.Account.Name(), Why: why})
			continue
		}
		if names[row.Name] {
			row.Name = fmt.Sprintf("%s-%d", row.Name, in.ID)
		}
		names[row.Name] = true
		fresh = append(fresh, row)
		out.Created = append(out.Created, s.viewInstallation(row))
	}
	if len(fresh) == 0 && !requestOf(ctx).guard.Writes() {
		return out, nil // a page that was loaded again
	}
	err = s.do(ctx, change{kind: "github_app", id: a.ID, name: a.Name, after: out}, func(ctx context.Context) error {
		if len(fresh) == 0 {
			return nil
		}
		_, err := s.store.CreateInstallations(ctx, fresh)
		return err
	})
	if err == nil && len(fresh) > 0 {
		s.fleet.Look()
	}
	return out, err
}

// rowOf is the row of an App's installation, or why there should be none.
func (s *Server) rowOf(a store.GitHubApp, in github.AppInstallation) (row store.Installation, why string) {
	kind := kindOf(in)
	switch {
	case kind != accountOrganization && kind != accountUser:
		return row, "it is of the kind " + kind + ": the fleet serves organisations and users"
	case in.SuspendedAt != nil:
		return row, "it is suspended: lift that at " + in.HTMLURL
	case in.Account.Login == "":
		return row, "GitHub does not say whose it is"
	}
	now := s.now()
	return store.Installation{
		ID: store.NewID(store.IDInstallation), Name: in.Account.Login, BaseURL: a.BaseURL, AppID: a.AppID, InstallationID: in.ID,
		Account: in.Account.Login, AccountType: kind, PrivateKey: a.PrivateKey, WebhookSecret: a.WebhookSecret, CreatedAt: now, UpdatedAt: now,
	}, ""
}
