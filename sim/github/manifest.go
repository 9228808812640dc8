package github

import (
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// manifest is a posted manifest that waits for its code to be exchanged.
type manifest struct {
	owner *account
	made  time.Time
	said  manifestFields
}

// manifestFields are the fields that GitHub documents. It refuses others.
type manifestFields struct {
	Name        string      `json:"name"`
	URL         string      `json:"url"`
	Hook        *hookFields `json:"hook_attributes"`
	Description string      `json:"description"`

	RedirectURL   string   `json:"redirect_url"`
	CallbackURLs  []string `json:"callback_urls"`
	SetupURL      string   `json:"setup_url"`
	SetupOnUpdate bool     `json:"setup_on_update"`
	RequestOAuth  bool     `json:"request_oauth_on_install"`
	Public        bool     `json:"public"`

	Permissions map[string]string `json:"default_permissions"`
	Events      []string          `json:"default_events"`
}

type hookFields struct {
	URL    string `json:"url"`
	Active *bool  `json:"active"`
}

// manifestLife is how long a code can be exchanged.
const manifestLife = time.Hour

// pages are the two pages of GitHub's own that the manifest flow passes. Where a person would click, they answer at once.
//
// This GitHub knows one App. One that is made from a manifest takes the place of the one before it, whose installations are gone.
func (s *Server) pages(mux *http.ServeMux) {
	mux.HandleFunc("POST /settings/apps/new", s.newAppPage)
	mux.HandleFunc("POST /organizations/{org}/settings/apps/new", s.newAppPage)
	mux.HandleFunc("GET /apps/{slug}/installations/new", s.installPage)
}

// RequireApproval makes installing an App a request that an owner of the account has to approve.
func (s *Server) RequireApproval(on bool) { s.set(func() { s.world.approval = on }) }

// newAppPage takes a posted manifest and sends the browser back with a code.
func (s *Server) newAppPage(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
	m, err := readManifest(r.PostFormValue("manifest"))
	if err != nil {
		http.Error(w, html.EscapeString("Invalid GitHub App configuration: "+err.Error()), http.StatusUnprocessableEntity)
		return
	}
	s.mu.Lock()
	owner := s.account("octocat", false)
	if org := r.PathValue("org"); org != "" {
		owner = s.account(org, true)
	}
	code := s.token("", 40)
	s.world.manifests[code] = &manifest{owner: owner, made: s.now(), said: m}
	s.mu.Unlock()
	redirect(w, r, m.RedirectURL, url.Values{"code": {code}, "state": {r.URL.Query().Get("state")}})
}

func readManifest(text string) (manifestFields, error) {
	var m manifestFields
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return m, fmt.Errorf("the configuration does not appear to be a valid manifest: %w", err)
	}
	switch {
	case m.Name == "" || len(m.Name) > 34:
		return m, errors.New("name has 1 to 34 characters")
	case !absolute(m.URL), m.Hook != nil && !absolute(m.Hook.URL): // in its webhook, too, and GitHub does not say which
		return m, errors.New(`"url" wasn't supplied`)
	case !absolute(m.RedirectURL), m.SetupURL != "" && !absolute(m.SetupURL):
		return m, errors.New("redirect_url and setup_url must be addresses")
	}
	return m, nil
}

func absolute(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

func redirect(w http.ResponseWriter, r *http.Request, to string, add url.Values) {
	u, err := url.Parse(to)
	if err != nil {
		http.Error(w, "the App has no page to go to", http.StatusNotFound)
		return
	}
	q := u.Query()
	for k, v := range add {
		if v[0] != "" {
			q[k] = v
		}
	}
	u.RawQuery = q.Encode()
	http.Redirect(w, r, u.String(), http.StatusFound)
}

var notInSlugs = regexp.MustCompile(`[^a-z0-9]+`)

// convertManifest exchanges a code for the App and its secrets.
func (s *Server) convertManifest(c *call) answer {
	code := c.r.PathValue("code")
	m := s.world.manifests[code]
	if m == nil || c.now.Sub(m.made) > manifestLife {
		return notFound()
	}
	delete(s.world.manifests, code)
	for _, in := range s.world.installations {
		for _, r := range in.repos {
			r.installation = nil
		}
	}
	clear(s.world.installations)
	s.app.id, s.app.clientID = s.newID(), "Iv23"+s.token("", 16)
	s.app.name, s.app.slug = m.said.Name, strings.Trim(notInSlugs.ReplaceAllString(strings.ToLower(m.said.Name), "-"), "-")
	s.app.owner, s.app.permissions, s.app.events, s.app.setupURL = m.owner, m.said.Permissions, append([]string{}, m.said.Events...), m.said.SetupURL
	if s.app.permissions == nil {
		s.app.permissions = map[string]string{}
	}
	h := s.hooks.all[0]
	h.url, s.app.secret = "", ""
	var secret any
	if m.said.Hook != nil {
		s.app.secret = s.token("", 40)
		secret = s.app.secret
		if m.said.Hook.Active == nil || *m.said.Hook.Active {
			h.url = m.said.Hook.URL
		}
	}
	h.secret = s.app.secret
	body := s.appJSON()
	body["client_secret"], body["webhook_secret"], body["pem"] = s.token("", 40), secret, string(s.app.pem)
	if h.url != "" {
		s.deliver(h, "ping", "", nil, 0, s.pingPayload(h))
	}
	return answer{status: http.StatusCreated, body: body}
}

// installPage installs the App on its owner's account, or asks for that, and sends the browser on.
func (s *Server) installPage(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.app.slug != r.PathValue("slug") || s.app.owner == nil {
		s.mu.Unlock()
		http.NotFound(w, r)
		return
	}
	to, said := s.app.setupURL, url.Values{"setup_action": {"request"}, "state": {r.URL.Query().Get("state")}}
	if !s.world.approval {
		said.Set("setup_action", "install")
		said.Set("installation_id", strconv.FormatInt(s.installed(s.app.owner).id, 10))
	}
	s.mu.Unlock()
	redirect(w, r, to, said)
}

// installed is the App's installation on an account: there is one at most. Called under mu.
func (s *Server) installed(acc *account) *installation {
	for _, in := range s.world.installations {
		if in.account == acc {
			return in
		}
	}
	s.touch()
	return s.install(acc)
}
