package github

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	gh "github.com/google/go-github/v66/github"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

// Apps asks GitHub what an App may ask by its own key, before and beside any installation. What GitHub refuses to one App because of
// a limit is remembered, so that it is not asked again too early. It is safe for concurrent use.
type Apps struct {
	http *http.Client
	now  func() time.Time

	mu     sync.Mutex
	limits map[appOf]*refusals
}

type appOf struct {
	base string
	id   int64
}

// NewApps makes Apps. A nil client is NewHTTPClient's, a nil now is time.Now.
func NewApps(hc *http.Client, now func() time.Time) *Apps {
	if hc == nil {
		hc = NewHTTPClient()
	}
	if now == nil {
		now = time.Now
	}
	return &Apps{http: hc, now: now, limits: map[appOf]*refusals{}}
}

// App is one GitHub App that proves itself by its key.
type App struct {
	gh     *gh.Client
	now    func() time.Time
	limits *refusals
}

// AppDetails is an App as GitHub shows it.
type AppDetails struct {
	ID          int64             `json:"id"`
	Slug        string            `json:"slug"`
	Name        string            `json:"name"`
	Owner       Account           `json:"owner"`
	HTMLURL     string            `json:"html_url"`
	Permissions map[string]string `json:"permissions"`
	Events      []string          `json:"events"`
}

// Account is an organisation or a user; an enterprise has only a slug.
type Account struct {
	Login string `json:"login"`
	Slug  string `json:"slug"`
	Type  string `json:"type"` // Organization, User
}

// Name is what the account is called by.
func (a Account) Name() string {
	if a.Login != "" {
		return a.Login
	}
	return a.Slug
}

// AppInstallation is an installation as its App sees it.
type AppInstallation struct {
	ID          int64             `json:"id"`
	AppID       int64             `json:"app_id"`
	Account     Account           `json:"account"`
	TargetType  string            `json:"target_type"`
	HTMLURL     string            `json:"html_url"`
	Permissions map[string]string `json:"permissions"`
	Events      []string          `json:"events"`
	SuspendedAt *time.Time        `json:"suspended_at"`
}

// HookConfig is where an App's webhook goes; without one URL is empty.
type HookConfig struct {
	URL         string `json:"url"`
	ContentType string `json:"content_type"`
	InsecureSSL any    `json:"insecure_ssl"` // "0", "1" or a number
}

// Unverified says that GitHub does not check the receiver's certificate.
func (h HookConfig) Unverified() bool { return fmt.Sprint(h.InsecureSSL) == "1" }

// HookDelivery is a delivery as GitHub remembers it.
type HookDelivery struct {
	GUID           string    `json:"guid"`
	DeliveredAt    time.Time `json:"delivered_at"`
	Status         string    `json:"status"` // OK, or what went wrong
	StatusCode     int       `json:"status_code"`
	Event          string    `json:"event"`
	InstallationID int64     `json:"installation_id"`
}

// Failed says that the receiver did not take it.
func (d HookDelivery) Failed() bool { return d.StatusCode < 200 || d.StatusCode > 299 }

// NewApp is what GitHub gives once to whoever converts a manifest's code.
type NewApp struct {
	AppDetails
	PrivateKey    secrets.Value
	WebhookSecret secrets.Value // empty when the App has no webhook
}

// CheckPrivateKey refuses what is not a private RSA key in PEM. Its error never tells what the key is.
func CheckPrivateKey(key secrets.Value) error {
	if _, err := ghinstallation.NewAppsTransport(http.DefaultTransport, 1, key.Reveal()); err != nil {
		return errors.New("the private key is not an RSA key in PEM: give the .pem file that GitHub made for the App, whole")
	}
	return nil
}

// App makes the client of one App. It asks GitHub nothing yet.
func (a *Apps) App(base string, id int64, key secrets.Value) (*App, error) {
	if err := CheckPrivateKey(key); err != nil {
		return nil, fmt.Errorf("cannot ask GitHub as App %d: %w", id, err)
	}
	signed, err := ghinstallation.NewAppsTransport(a.wire(), id, key.Reveal())
	if err != nil { // it was parsed a moment ago
		return nil, errors.New("cannot ask GitHub: the private key cannot be used")
	}
	return a.client(base, id, signed)
}

func (a *Apps) wire() http.RoundTripper {
	next := a.http.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	return wire{next: next, agent: userAgent, limit: maxAnswer}
}

func (a *Apps) client(base string, id int64, through http.RoundTripper) (*App, error) {
	u, err := parseBase(base)
	if err != nil {
		return nil, fmt.Errorf("cannot ask GitHub: %w", err)
	}
	timeout := a.http.Timeout
	if timeout <= 0 {
		timeout = callTimeout
	}
	api := gh.NewClient(&http.Client{Transport: &appTransport{next: through, base: u}, Timeout: timeout})
	api.BaseURL = u.JoinPath("/")
	api.UserAgent = userAgent
	a.mu.Lock()
	defer a.mu.Unlock()
	k := appOf{u.String(), id}
	if a.limits[k] == nil {
		a.limits[k] = &refusals{}
	}
	return &App{gh: api, now: a.now, limits: a.limits[k]}, nil
}

// appTransport keeps refusals from go-github, as authTransport does, and the App's proof from other hosts.
type appTransport struct {
	next http.RoundTripper
	base *url.URL
}

func (t *appTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != t.base.Scheme || req.URL.Host != t.base.Host {
		closeBody(req)
		return nil, errors.New("refusing to prove the App to another host")
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 400 {
		attemptOf(req.Context()).answer.Store(readAnswer(resp, ""))
		return nil, errRefused
	}
	for _, h := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
		resp.Header.Del(h)
	}
	return resp, nil
}

// ask makes one request and decodes its answer.
func (c *App) ask(ctx context.Context, op operation, method, path string, into any) (*gh.Response, error) {
	if l := c.limits.check(op.quota, c.now()); l != nil {
		return nil, &CallError{text: "cannot " + op.what + ": " + l.Error(), classes: []error{l}}
	}
	st := &attempt{}
	watched := st.watch(ctx)
	req, err := c.gh.NewRequest(method, path, nil)
	if err != nil {
		return nil, fmt.Errorf("cannot %s: %w", op.what, err)
	}
	resp, cause := c.gh.Do(watched, req, into)
	if cause == nil {
		return resp, nil
	}
	failed := explain(ctx, op, st, cause, c.now())
	if limit, ok := errors.AsType[*LimitError](failed); ok {
		c.limits.note("", *limit)
	}
	return nil, failed
}

// Details shows the App itself. ErrUnauthorized says that its ID and its key do not belong together.
func (c *App) Details(ctx context.Context) (AppDetails, error) {
	var d AppDetails
	_, err := c.ask(ctx, operation{what: "read the App", quota: quotaCore}, http.MethodGet, "app", &d)
	if err == nil && d.ID == 0 {
		err = errors.New("cannot read the App: the answer names none; is the base URL that of a GitHub?")
	}
	return d, err
}

// Installation shows one installation; ErrNotFound when the App has none of that ID.
func (c *App) Installation(ctx context.Context, id int64) (AppInstallation, error) {
	var in AppInstallation
	what := fmt.Sprintf("read installation %d", id)
	_, err := c.ask(ctx, operation{what: what, quota: quotaCore}, http.MethodGet, "app/installations/"+strconv.FormatInt(id, 10), &in)
	if err == nil && (in.ID != id || in.Account.Name() == "") {
		err = fmt.Errorf("cannot %s: the answer is not about it; is the base URL that of a GitHub?", what)
	}
	return in, err
}

// Installations lists every installation of the App.
func (c *App) Installations(ctx context.Context) ([]AppInstallation, error) {
	var all []AppInstallation
	err := pages(func(o gh.ListOptions) (int, int, *gh.Response, error) {
		var page []AppInstallation
		path := fmt.Sprintf("app/installations?per_page=%d&page=%d", o.PerPage, o.Page)
		resp, err := c.ask(ctx, operation{what: "list the App's installations", quota: quotaCore}, http.MethodGet, path, &page)
		all = append(all, page...)
		return len(page), 0, resp, err
	})
	return all, err
}

// Hook says where the App's webhook goes. ErrNotFound when it has none.
func (c *App) Hook(ctx context.Context) (HookConfig, error) {
	var h HookConfig
	_, err := c.ask(ctx, operation{what: "read the App's webhook", quota: quotaCore}, http.MethodGet, "app/hook/config", &h)
	return h, err
}

// Deliveries lists the last deliveries of the App's webhook, the newest first, at most a hundred.
func (c *App) Deliveries(ctx context.Context) ([]HookDelivery, error) {
	var d []HookDelivery
	_, err := c.ask(ctx, operation{what: "list the webhook's deliveries", quota: quotaCore}, http.MethodGet, "app/hook/deliveries?per_page=100", &d)
	return d, err
}

var manifestCode = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// Convert exchanges the code that GitHub gave for a manifest, once and within an hour, for the App and its secrets. ErrNotFound says
// that the code is spent or unknown; ErrUnknown that the answer was lost, and with it the secrets.
func (a *Apps) Convert(ctx context.Context, base, code string) (NewApp, error) {
	if !manifestCode.MatchString(code) {
		return NewApp{}, fmt.Errorf("cannot take over the new App: %w: that is no code of GitHub's", ErrNotFound)
	}
	c, err := a.client(base, 0, a.wire())
	if err != nil {
		return NewApp{}, err
	}
	var got struct {
		AppDetails
		PEM           string `json:"pem"`
		WebhookSecret string `json:"webhook_secret"`
	}
	op := operation{what: "take over the new App", effect: converts, quota: quotaCore, secret: code}
	if _, err := c.ask(ctx, op, http.MethodPost, "app-manifests/"+code+"/conversions", &got); err != nil {
		return NewApp{}, err
	}
	app := NewApp{AppDetails: got.AppDetails, PrivateKey: secrets.Of(got.PEM), WebhookSecret: secrets.Of(got.WebhookSecret)}
	if app.ID <= 0 || CheckPrivateKey(app.PrivateKey) != nil {
		return NewApp{}, fmt.Errorf("cannot take over the new App: %w: the answer has no App or no key", ErrUnknown)
	}
	return app, nil
}
