// Package client speaks to a Zoomies controller: over the network with an API token, or over the local socket on its own machine.
// Package rest, below, holds the API's types and one call for each operation; this package makes those calls safe to use: errors
// are typed, what is safe to repeat is repeated, lists are read to their end and streams reconnect. It must never import anything
// else of this module, and never write a token anywhere.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/client/rest"
)

// Options say which controller to speak to, and as whom.
type Options struct {
	Server    string // https://host[:port]; http for loopback addresses alone
	Socket    string // path of the controller's local socket, instead of Server: its owner needs no token
	Token     string // an API token, zoo_…
	CAFile    string // PEM file of the authority that the server's certificate must come from
	PinSHA256 string // instead: SHA-256 of that authority's public key (SubjectPublicKeyInfo), in hex or base64
	UserAgent string
	// Transport replaces the connection, for tests and proxies; nil makes one from the fields above.
	Transport http.RoundTripper
	// Tries is how often a request that is safe to repeat is sent at most; 0 is four times.
	Tries uint
	// Timeout bounds one request without its repeats; 0 is a minute. Streams have none.
	Timeout time.Duration
}

// Client speaks to one controller. It is safe for concurrent use. The calls of rest.ClientWithResponsesInterface are its methods;
// an answer that is an error comes as *Problem.
type Client struct {
	*rest.ClientWithResponses

	base    string
	http    *http.Client // for requests
	token   string
	owner   bool // speaks over the local socket
	agent   string
	tries   uint
	timeout time.Duration
}

// New makes a client. It connects when it is first used.
func New(o Options) (*Client, error) {
	c := &Client{token: o.Token, agent: o.UserAgent, tries: o.Tries, timeout: o.Timeout, owner: o.Socket != ""}
	if c.agent == "" {
		c.agent = "zoomies-client"
	}
	if c.tries == 0 {
		c.tries = 4
	}
	if c.timeout == 0 {
		c.timeout = time.Minute
	}
	var err error
	if c.base, err = baseOf(o); err != nil {
		return nil, err
	}
	rt := o.Transport
	if rt == nil {
		if rt, err = transport(o); err != nil {
			return nil, err
		}
	}
	c.http = &http.Client{Transport: rt, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the API sends nobody elsewhere, and a token must not be sent there
	}}
	if c.ClientWithResponses, err = rest.NewClientWithResponses(c.base, rest.WithHTTPClient(c)); err != nil {
		return nil, fmt.Errorf("cannot use the server's address: %w", err)
	}
	return c, nil
}

// baseOf is the address that paths are appended to.
func baseOf(o Options) (string, error) {
	if o.Socket != "" {
		if o.Server != "" {
			return "", errors.New("cannot speak to a server and to a local socket at once: give one of them")
		}
		return "http://local", nil
	}
	u, err := url.Parse(o.Server)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("cannot read the server's address %.80q: write it as https://host[:port]", o.Server)
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return "", fmt.Errorf("cannot speak %.16s to the server: write its address as https://host[:port]", u.Scheme)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return "", errors.New("cannot use plain HTTP to another machine, since that shows the token to everybody between: use https")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("cannot use an address with a user, a query or a fragment: write it as https://host[:port]")
	}
	return strings.TrimSuffix(o.Server, "/"), nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Base is the controller's address, as requests name it.
func (c *Client) Base() string { return c.base }

// Call makes a request that has no call of its own in package rest, and returns the answer's body. path begins with /; body is sent
// as JSON, nil for none.
func (c *Client) Call(ctx context.Context, method, path string, query url.Values, body any) (json.RawMessage, error) {
	return c.CallWith(ctx, method, path, query, body, nil)
}

// CallWith is Call for a request that edit changes before it is sent.
func (c *Client) CallWith(ctx context.Context, method, path string, query url.Values, body any, edit func(*http.Request)) (json.RawMessage, error) {
	var rd io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("cannot write the request: %w", err)
		}
		rd = bytes.NewReader(raw)
	}
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, rd)
	if err != nil {
		return nil, fmt.Errorf("cannot make the request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if edit != nil {
		edit(req)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, &UnavailableError{Base: c.base, Err: err}
	}
	return raw, nil
}

// Decode is Call with its answer read into a value.
func Decode[T any](ctx context.Context, c *Client, method, path string, query url.Values, body any) (T, error) {
	var v T
	raw, err := c.Call(ctx, method, path, query, body)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("cannot read the answer to %s %s: %w", method, path, err)
	}
	return v, nil
}
