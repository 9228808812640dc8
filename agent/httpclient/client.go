// Package httpclient reaches a controller over HTTP: it is protocol.Controller with a network
// in between. It must never retry, follow a redirect or hide an error: the agent decides.
package httpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// Time limits of one call.
const (
	// CallTimeout bounds a call that should be answered at once.
	CallTimeout = 30 * time.Second
	// PollSlack is what a poll may take beyond the wait it asked for.
	PollSlack = 15 * time.Second
)

// Client is a controller at the other end of a network. It is safe for concurrent use.
type Client struct {
	base   *url.URL
	http   *http.Client
	pinned bool
}

var _ protocol.Controller = (*Client)(nil)

// New makes a client. It connects to nothing yet.
func New(o Options) (*Client, error) {
	base, err := o.baseURL()
	if err != nil {
		return nil, err
	}
	transport, err := o.transport(base)
	if err != nil {
		return nil, err
	}
	return &Client{base: base, pinned: o.Pin != "", http: &http.Client{
		Transport: transport,
		// A redirect would carry the token to an address nobody chose.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Address is the controller's base URL.
func (c *Client) Address() string { return c.base.String() }

// Join implements protocol.Controller.
func (c *Client) Join(ctx context.Context, req protocol.JoinRequest) (protocol.JoinResponse, error) {
	var resp protocol.JoinResponse
	err := c.post(ctx, protocol.Credential{}, protocol.PathJoin, req, &resp)
	if err == nil && (resp.HostID == "" || resp.AgentToken == "" && req.AgentTokenHash == "") {
		err = errors.New("the answer to the join has no credential in it: is that address a Zoomies controller?")
	}
	return resp, err
}

// Heartbeat implements protocol.Controller.
func (c *Client) Heartbeat(ctx context.Context, cred protocol.Credential, hb protocol.Heartbeat) (protocol.HeartbeatResponse, error) {
	var resp protocol.HeartbeatResponse
	return resp, c.post(ctx, cred, protocol.PathHeartbeat, hb, &resp)
}

// Poll implements protocol.Controller.
func (c *Client) Poll(ctx context.Context, cred protocol.Credential, wait time.Duration) (*protocol.Task, error) {
	wait = min(max(wait, 0), protocol.MaxWait)
	ctx, cancel := context.WithTimeout(ctx, wait+PollSlack)
	defer cancel()
	u := c.url(protocol.PathTasks)
	u.RawQuery = url.Values{protocol.QueryWait: {strconv.FormatFloat(wait.Seconds(), 'f', -1, 64)}}.Encode()
	var resp protocol.TaskBody
	req, err := newRequest(ctx, cred, http.MethodGet, u, nil)
	if err != nil {
		return nil, err
	}
	protocol.SetHeld(ctx, req.Header)
	if err := c.roundTrip(req, &resp); err != nil {
		return nil, err
	}
	return resp.Task, nil
}

// Result implements protocol.Controller.
func (c *Client) Result(ctx context.Context, cred protocol.Credential, res protocol.TaskResult) error {
	return c.post(ctx, cred, protocol.PathResult, res, &struct{}{})
}

// Report implements protocol.Controller.
func (c *Client) Report(ctx context.Context, cred protocol.Credential, reports []protocol.RunnerReport) (protocol.ReportResponse, error) {
	var resp protocol.ReportResponse
	return resp, c.post(ctx, cred, protocol.PathReports, protocol.ReportsBody{Reports: reports}, &resp)
}

// SendLogs implements protocol.Controller. It returns when r ends or the controller has had
// enough; it may still hold r for a moment then, so the caller closes it.
func (c *Client) SendLogs(ctx context.Context, cred protocol.Credential, stream string, r io.Reader) error {
	u := c.url(protocol.PathLogs + url.PathEscape(stream))
	req, err := newRequest(ctx, cred, http.MethodPost, u, io.NopCloser(r))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	req.ContentLength = -1
	// The controller may answer in the middle of the body; the connection is then no use.
	req.Close = true
	return c.roundTrip(req, &struct{}{})
}

// post sends one JSON message within CallTimeout.
func (c *Client) post(ctx context.Context, cred protocol.Credential, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("cannot write the message to the controller: %w", err)
	}
	if len(body) > protocol.MaxBody {
		return fmt.Errorf("%w: it has %d bytes and may have %d", protocol.ErrInvalid, len(body), protocol.MaxBody)
	}
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	req, err := newRequest(ctx, cred, http.MethodPost, c.url(path), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	return c.roundTrip(req, out)
}

func newRequest(ctx context.Context, cred protocol.Credential, method string, u *url.URL, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("cannot make the request to the controller: %w", err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set(protocol.HeaderProtocol, strconv.Itoa(protocol.Version))
	if cred.Token != "" {
		protocol.SetCredential(req.Header, cred)
	}
	return req, nil
}

// roundTrip sends req and reads the answer into out. A failure of the network and an answer
// that is not the controller's are errors of no shared class.
func (c *Client) roundTrip(req *http.Request, out any) error {
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("cannot reach the controller: %w", c.advise(err))
	}
	defer func() { _ = resp.Body.Close() }()
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return fmt.Errorf("the controller's address %s redirects to %q: set the controller's own address", c.base, redirectTarget(resp))
	case resp.StatusCode != http.StatusOK:
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		return protocol.ErrorOf(resp.StatusCode, body)
	}
	if err := protocol.Decode(resp.Body, out); err != nil {
		// Not ErrInvalid, which would say that our own message was at fault.
		return fmt.Errorf("cannot understand the controller's answer: %w", opaque{err})
	}
	return nil
}

// redirectTarget is where a redirect points, without a query that may hold anything.
func redirectTarget(resp *http.Response) string {
	u, err := resp.Location()
	if err != nil {
		return "nowhere"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

func (c *Client) url(path string) *url.URL { return c.base.JoinPath(path) }

// opaque keeps an error's text and hides its class, except for what came from the network.
type opaque struct{ err error }

func (o opaque) Error() string { return o.err.Error() }
func (o opaque) Unwrap() error {
	if errors.Is(o.err, protocol.ErrInvalid) {
		return nil
	}
	return o.err
}
