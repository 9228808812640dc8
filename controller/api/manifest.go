package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// ManifestRequest says what App is to be made, and where.
type ManifestRequest struct {
	Organization      string `json:"organization" required:"false" maxLength:"100" pattern:"^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)?$" doc:"The organisation that gets the App; empty makes it in the personal account of whoever opens the page"`
	BaseURL           string `json:"base_url" required:"false" maxLength:"500" doc:"REST root: empty for github.com, https://HOST/api/v3 for GitHub Enterprise Server"`
	Name              string `json:"name" required:"false" maxLength:"34" doc:"The App's name, unique at GitHub; it can still be changed on GitHub's page. Empty makes one up"`
	PublicURL         string `json:"public_url" required:"false" maxLength:"300" doc:"Where the browser, and GitHub's webhook, reach this controller; empty takes the setting public_url"`
	Webhook           *bool  `json:"webhook,omitempty" doc:"Whether the App gets a webhook. Absent: when public_url is not on this machine or a private network"`
	RepositoryRunners bool   `json:"repository_runners" required:"false" doc:"Also ask for what pools of single repositories need: administration of the repositories"`
}

// ManifestStart says how to go on.
type ManifestStart struct {
	URL       string    `json:"url" doc:"Open it in a browser that is signed in to GitHub, within the hour"`
	State     string    `json:"state" doc:"Names this attempt; whoever knows it can finish it"`
	Webhook   bool      `json:"webhook" doc:"Whether the App gets a webhook; without one jobs are found by polling"`
	ExpiresAt time.Time `json:"expires_at"`
}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (ManifestStart) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s)
}

type (
	startManifest       struct{ Body ManifestRequest }
	startManifestOutput struct{ Body ManifestStart }
	finishManifest      struct {
		State string `path:"state" maxLength:"100" doc:"The attempt, as start-manifest named it"`
		Body  struct {
			Code string `json:"code" writeOnly:"true" minLength:"1" maxLength:"128" doc:"The code in the address that GitHub sent the browser to"`
		}
	}
	appOutput struct{ Body GitHubApp }
)

func addManifest(s *Server) {
	register(s, "start-manifest", s.startManifest)
	register(s, "finish-manifest", s.finishManifest)
	s.raw("manifest-form", s.manifestForm)
	s.raw("manifest-created", s.manifestCreated)
	s.raw("manifest-installed", s.manifestInstalled)
}

func (s *Server) startManifest(ctx context.Context, in *startManifest) (*startManifestOutput, error) {
	b := in.Body
	base, err := github.CheckBaseURL(b.BaseURL)
	if err != nil {
		return nil, invalid("body.base_url", "%s", err)
	}
	public, err := s.publicURL(b.PublicURL)
	if err != nil {
		return nil, err
	}
	x := &flow{who: principal(ctx), base: base, public: public.String(), owner: b.Organization}
	webhook := reachableFrom(base, public.Hostname())
	if b.Webhook != nil {
		webhook = *b.Webhook
	}
	if err := s.flows.begin(x, func(state string) ([]byte, error) { return json.Marshal(manifestOf(b, x.public, state, webhook)) }); err != nil {
		return nil, err
	}
	out := ManifestStart{URL: x.page(""), State: x.state, Webhook: webhook, ExpiresAt: x.expires}
	began := struct {
		Organization string `json:"organization"`
		BaseURL      string `json:"base_url"`
		PublicURL    string `json:"public_url"`
		Webhook      bool   `json:"webhook"`
	}{x.owner, base, x.public, webhook}
	err = s.do(ctx, change{kind: "github_app", name: b.Name, after: began}, func(context.Context) error { return nil })
	return &startManifestOutput{out}, err
}

// publicURL is where the browser comes back to.
func (s *Server) publicURL(said string) (*url.URL, error) {
	if said == "" {
		said = s.public
	}
	if said == "" {
		return nil, invalid("body.public_url", "nobody said where a browser reaches this controller: give public_url, or set it in the settings")
	}
	u, err := url.Parse(strings.TrimRight(said, "/"))
	switch {
	case err != nil, u.Host == "", u.User != nil, u.Path != "", u.RawQuery != "", u.Fragment != "":
		return nil, invalid("body.public_url", "public_url is https://HOST or https://HOST:PORT, without a path")
	case u.Scheme != "https" && (u.Scheme != "http" || !github.Loopback(u.Hostname())):
		return nil, invalid("body.public_url", "public_url is https, or http on this machine alone: GitHub's code would cross the network in the clear")
	}
	return u, nil
}

// reachableFrom says whether a GitHub may be able to send webhooks to a host. It cannot know: it knows what surely fails.
func reachableFrom(base, host string) bool {
	if u, err := url.Parse(base); err == nil && base != "" && github.Loopback(u.Hostname()) {
		return true // the GitHub is on this machine, too
	}
	if github.Loopback(host) {
		return false
	}
	ip := net.ParseIP(host)
	return base != "" || ip == nil || !ip.IsPrivate()
}

// page is the address of one of the flow's pages.
func (x *flow) page(name string) string {
	return strings.TrimRight(x.public+"/setup/github/"+x.state+"/"+name, "/")
}

// appManifest is what GitHub makes an App from.
type appManifest struct {
	Name        string            `json:"name"`
	URL         string            `json:"url"`
	Hook        *appHook          `json:"hook_attributes,omitempty"` // GitHub refuses one without an address, even when it is off
	RedirectURL string            `json:"redirect_url"`
	SetupURL    string            `json:"setup_url"`
	Description string            `json:"description"`
	Public      bool              `json:"public"`
	Events      []string          `json:"default_events,omitempty"`
	Permissions map[string]string `json:"default_permissions"`
}

type appHook struct {
	URL    string `json:"url"`
	Active bool   `json:"active"`
}

const maxAppName = 34 // GitHub's

func manifestOf(b ManifestRequest, public, state string, webhook bool) appManifest {
	x := flow{public: public, state: state}
	kind := accountUser
	if b.Organization != "" {
		kind = accountOrganization
	}
	m := appManifest{
		Name: strings.TrimSpace(b.Name), URL: public, RedirectURL: x.page("created"), SetupURL: x.page("installed"),
		Description: "Runs this account's jobs on a Zoomies fleet.", Permissions: map[string]string{},
	}
	if m.Name == "" { // GitHub's names are unique in the whole of it
		m.Name = "Zoomies"
		if b.Organization != "" {
			m.Name += " " + b.Organization
		}
		m.Name = m.Name[:min(len(m.Name), maxAppName-5)] + "-" + strings.ToLower(state[:4])
	}
	for _, p := range needed(kind, true, b.RepositoryRunners) {
		m.Permissions[p.name] = p.tiers[len(p.tiers)-1].level
	}
	if webhook {
		m.Hook, m.Events = &appHook{URL: public + webhookPath(), Active: true}, []string{"workflow_job"}
	}
	return m
}

// newAppURL is the page of GitHub's that takes the manifest.
func (x *flow) newAppURL() string {
	path := "/settings/apps/new"
	if x.owner != "" {
		path = "/organizations/" + url.PathEscape(x.owner) + path
	}
	return github.WebURL(x.base) + path + "?state=" + url.QueryEscape(x.state)
}

func (s *Server) finishManifest(ctx context.Context, in *finishManifest) (*appOutput, error) {
	x := s.flows.find(in.State)
	if x == nil || !sameFlow(principal(ctx), x.who) {
		return nil, problem(http.StatusNotFound, "There is no such attempt to make an App: it took more than an hour, or the controller was restarted.", "Begin again.")
	}
	a, fresh, err := s.finish(ctx, x, in.Body.Code)
	if err == nil && !fresh {
		err = s.do(ctx, change{kind: "github_app", id: a.ID, name: a.Name, before: viewApp(a), after: viewApp(a)}, func(context.Context) error { return nil })
	}
	return &appOutput{viewApp(a)}, err
}

// sameFlow says whether somebody may go on with what another began: as the same user, or as the machine's owner.
func sameFlow(who, began auth.Principal) bool {
	if who.Kind == auth.KindLocal || began.Kind == auth.KindLocal {
		return true
	}
	return who.UserID == began.UserID
}

// finish exchanges GitHub's code for the App and writes it down, once; later calls return what the first made. The App's key is
// given once, so neither step ends because a browser went away. fresh says that this call made it.
func (s *Server) finish(ctx context.Context, x *flow, code string) (a store.GitHubApp, fresh bool, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.app != nil {
		return *x.app, false, nil
	}
	if err := s.mayStill(ctx, x.who); err != nil {
		return a, false, err
	}
	ctx = context.WithoutCancel(ctx)
	if x.made == nil {
		asking, cancel := context.WithTimeout(ctx, githubPatience)
		defer cancel()
		made, err := s.apps.Convert(asking, x.base, code)
		if err != nil {
			return a, false, conversionProblem(err)
		}
		x.made = &made
	}
	a = store.GitHubApp{
		ID: store.NewID(store.IDApp), BaseURL: x.base, AppID: x.made.ID, Slug: x.made.Slug, Name: x.made.Name, Owner: x.made.Owner.Name(),
		HTMLURL: x.made.HTMLURL, PrivateKey: x.made.PrivateKey, WebhookSecret: x.made.WebhookSecret, CreatedAt: s.now(),
	}
	err = s.do(ctx, change{kind: "github_app", id: a.ID, name: a.Name, after: viewApp(a)}, func(ctx context.Context) (err error) {
		a, err = s.store.CreateGitHubApp(ctx, a)
		return err
	})
	if err != nil {
		return a, false, err // the App is kept in the flow: a second try writes it
	}
	x.made, x.app = nil, &a
	return a, true, nil
}

func conversionProblem(err error) error {
	if errors.Is(err, github.ErrUnknown) {
		return problem(http.StatusConflict, sentence(err), "The App may have been made, and its key is lost: delete the App at GitHub and begin again, "+
			"or make a private key on its settings page and connect its installation by that.")
	}
	if errors.Is(err, github.ErrNotFound) {
		return problem(http.StatusConflict, "GitHub does not know this code: it was used before, or more than an hour ago.",
			"Delete the App at GitHub and begin again, or make a private key on its settings page and connect its installation by that.")
	}
	return githubProblem(err)
}

// mayStill asks whether who began a flow could begin it now: an hour is long.
func (s *Server) mayStill(ctx context.Context, who auth.Principal) error {
	if who.UserID == "" {
		return nil
	}
	u, err := s.store.User(ctx, who.UserID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if err == nil && !u.Disabled {
		for _, g := range u.Grants {
			if g.ScopeKind == store.ScopeFleet && auth.Role(g.Role).Includes(auth.Admin) {
				return nil
			}
		}
	}
	return problem(http.StatusForbidden, fmt.Sprintf("%s, who began this, may not connect GitHub any more.", who.Name), "Ask an admin of the fleet to begin again.")
}
