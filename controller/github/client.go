package github

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	gh "github.com/google/go-github/v66/github"
)

const (
	defaultBaseURL = "https://api.github.com"
	userAgent      = "zoomies (+https://github.com/zoomies-fleet/zoomies)"
	callTimeout    = time.Minute // one call, body included
	maxAnswer      = 32 << 20    // bytes of one answer; a full page of runs is about two
	pageSize       = 100
)

// Client is one installation at GitHub. It is safe for concurrent use, and nothing that GitHub refuses to it is felt by
// another Client, except that clients of one App share a Governor.
type Client struct {
	gh   *gh.Client
	http *http.Client
	mint *Governor
	now  func() time.Time

	limits refusals
	seen   spotMemory
}

var _ API = (*Client)(nil)
var _ Spotter = (*Client)(nil)

// NewHTTPClient is the HTTP client used when Config.HTTP is nil: a limit on every phase of a call, and the proxies of the
// environment. Sharing one between installations shares its connections.
func NewHTTPClient() *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{
		Timeout: callTimeout,
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            dialer.DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			ResponseHeaderTimeout:  30 * time.Second,
			ExpectContinueTimeout:  time.Second,
			IdleConnTimeout:        90 * time.Second,
			MaxIdleConnsPerHost:    Concurrency,
			MaxResponseHeaderBytes: 64 << 10,
			ForceAttemptHTTP2:      true,
			HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
		},
	}
}

// NewClient makes the client of one installation. It asks GitHub nothing yet. Each of its errors is an ErrUnusable: trying again helps
// only after the installation was changed.
func NewClient(cfg Config) (*Client, error) {
	base, err := parseBase(cfg.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if cfg.AppID <= 0 || cfg.InstallationID <= 0 {
		return nil, fmt.Errorf("%w: the App's ID and the installation's ID must be positive; both are on the App's settings page", ErrUnusable)
	}
	outer := cfg.HTTP
	if outer == nil {
		outer = NewHTTPClient()
	}
	next := outer.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	below := wire{next: next, agent: userAgent, limit: maxAnswer}
	app, err := ghinstallation.NewAppsTransport(below, cfg.AppID, cfg.PrivateKey.Reveal())
	if err != nil {
		// The parser's own words are left out: it read the key.
		return nil, fmt.Errorf("%w: the private key is not an RSA key in PEM; give the .pem file that GitHub made for the App", ErrUnusable)
	}
	now := cfg.Now
	if now == nil {
		now = time.Now
	}
	mint := cfg.Mint
	if mint == nil {
		mint = NewGovernor(MintsPerMinute, now)
	}
	auth := &authTransport{
		wire: below, base: base, id: cfg.InstallationID, app: app,
		cache: newETags(), now: now, gate: make(chan struct{}, 1),
	}
	timeout := outer.Timeout
	if timeout <= 0 {
		timeout = callTimeout
	}
	hc := &http.Client{Transport: auth, Timeout: timeout}
	api := gh.NewClient(hc)
	api.BaseURL = base.JoinPath("/")
	api.UserAgent = userAgent
	return &Client{gh: api, http: &http.Client{Transport: next}, mint: mint, now: now}, nil
}

// Close closes idle connections. The client stays usable.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// parseBase accepts a REST root such as https://host/api/v3. Credentials in it would reach error texts, so they are refused.
func parseBase(s string) (*url.URL, error) {
	if s == "" {
		s = defaultBaseURL
	}
	u, err := url.Parse(s)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Host == "":
		return nil, errors.New("the base URL is not an http(s) URL; GitHub Enterprise Server's is https://HOST/api/v3")
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, errors.New("the base URL must have no credentials, query or fragment")
	}
	return u, nil
}

// call runs one request of op through fn and explains its failure.
func (c *Client) call(ctx context.Context, op operation, fn func(context.Context) error) error {
	if l := c.limits.check(op.quota, c.now()); l != nil {
		return &CallError{text: "cannot " + op.what + ": " + l.Error(), classes: []error{l}}
	}
	st := &attempt{cached: op.cached}
	cause := fn(st.watch(ctx))
	if cause == nil {
		return nil
	}
	failed := explain(ctx, op, st, cause, c.now())
	if limit, ok := errors.AsType[*LimitError](failed); ok {
		c.limits.note(c.refusedQuota(op, st), *limit)
	}
	return failed
}

// refusedQuota says which calls a refusal speaks of: those of one quota when that is used up, else all.
func (c *Client) refusedQuota(op operation, st *attempt) string {
	a := st.refused()
	if a == nil || a.token || a.header.Get("X-RateLimit-Remaining") != "0" || a.header.Get("Retry-After") != "" {
		return ""
	}
	return op.quota
}

// pages calls get with page numbers until the last. get returns how many items the page had and how many GitHub says
// there are: a list is followed even where something on the way drops the Link header.
func pages(get func(gh.ListOptions) (items, total int, resp *gh.Response, err error)) error {
	seen := 0
	for page := 1; ; {
		items, total, resp, err := get(gh.ListOptions{Page: page, PerPage: pageSize})
		if err != nil {
			return err
		}
		seen += items
		next := 0
		if resp != nil {
			next = resp.NextPage
		}
		if next == 0 && items == pageSize && seen < total {
			next = page + 1
		}
		if next <= page || items == 0 {
			return nil
		}
		page = next
	}
}

var namePart = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

func validPart(s string) bool { return namePart.MatchString(s) && s != "." && s != ".." }

// splitRepository checks "owner/name", which goes into a URL's path.
func splitRepository(full string) (owner, name string, err error) {
	owner, name, ok := strings.Cut(full, "/")
	if !ok || !validPart(owner) || !validPart(name) {
		return "", "", fmt.Errorf("%q is not a repository; write owner/name", scrub(full, ""))
	}
	return owner, name, nil
}

// target is a checked Scope.
type target struct{ org, owner, repo string }

func (s Scope) target() (target, error) {
	switch {
	case s.Org != "" && s.Repository != "":
		return target{}, errors.New("a runner registers at an organisation or at a repository, not both")
	case s.Repository != "":
		owner, repo, err := splitRepository(s.Repository)
		return target{owner: owner, repo: repo}, err
	case validPart(s.Org):
		return target{org: s.Org}, nil
	}
	return target{}, fmt.Errorf("%q is not an organisation", scrub(s.Org, ""))
}

func (t target) String() string {
	if t.org != "" {
		return t.org
	}
	return t.owner + "/" + t.repo
}
