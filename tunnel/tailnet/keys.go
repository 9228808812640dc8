package tailnet

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	api "tailscale.com/client/tailscale/v2"
)

// KeyLife is how long a minted key may wait to be used.
const KeyLife = time.Hour

// Minter makes pre-auth keys at a control server: each for one host, once, tagged, and for a
// node that is forgotten when it is gone.
type Minter interface {
	// Mint makes a key. It is a secret; the control server shows it this once.
	Mint(ctx context.Context, host string) (string, error)
	// Remove takes the nodes of that name out of the tailnet. None is no error.
	Remove(ctx context.Context, host string) error
}

// Tailscale mints through Tailscale's API.
type Tailscale struct {
	// URL of the API; empty is Tailscale's.
	URL string
	// Tailnet is its name; empty is the credential's own.
	Tailnet string
	// Give either an API key, or an OAuth client's ID and secret.
	APIKey       string
	ClientID     string
	ClientSecret string
	// Tags that the key gives to its node, tag:… each. At least one.
	Tags []string
	HTTP *http.Client
}

func (t Tailscale) client() (*api.Client, error) {
	if err := checkTags(t.Tags); err != nil {
		return nil, err
	}
	c := &api.Client{APIKey: t.APIKey, Tailnet: t.Tailnet, HTTP: t.HTTP, UserAgent: "zoomies"}
	if t.HTTP == nil {
		c.HTTP = &http.Client{Timeout: 30 * time.Second}
	}
	if t.URL != "" {
		u, err := url.Parse(t.URL)
		if err != nil {
			return nil, errors.New("cannot use the address of Tailscale's API: it is not a URL")
		}
		c.BaseURL = u
	}
	switch {
	case t.APIKey != "" && t.ClientID+t.ClientSecret != "":
		return nil, errors.New("cannot use both an API key and an OAuth client: give one of them")
	case t.ClientID != "" && t.ClientSecret != "":
		c.Auth = &api.OAuth{ClientID: t.ClientID, ClientSecret: t.ClientSecret, Scopes: []string{"auth_keys", "devices:core"}}
	case t.APIKey == "":
		return nil, errors.New("cannot ask Tailscale for keys without an API key or an OAuth client")
	}
	return c, nil
}

// Mint implements Minter.
func (t Tailscale) Mint(ctx context.Context, host string) (string, error) {
	c, err := t.client()
	if err != nil {
		return "", err
	}
	req := api.CreateKeyRequest{ExpirySeconds: int64(KeyLife / time.Second), Description: "zoomies " + host}
	req.Capabilities.Devices.Create.Ephemeral = true
	req.Capabilities.Devices.Create.Preauthorized = true
	req.Capabilities.Devices.Create.Tags = t.Tags
	k, err := c.Keys().CreateAuthKey(ctx, req)
	if err != nil {
		return "", fmt.Errorf("cannot mint a key for %s at Tailscale: %w", host, err)
	}
	if k.Key == "" {
		return "", fmt.Errorf("cannot mint a key for %s at Tailscale: the answer holds none", host)
	}
	return k.Key, nil
}

// Remove implements Minter.
func (t Tailscale) Remove(ctx context.Context, host string) error {
	c, err := t.client()
	if err != nil {
		return err
	}
	all, err := c.Devices().List(ctx)
	if err != nil {
		return fmt.Errorf("cannot list the tailnet's nodes: %w", err)
	}
	for _, d := range all {
		if label(d.Name) != host || !sharesTag(d.Tags, t.Tags) {
			continue
		}
		if err := c.Devices().Delete(ctx, cmp.Or(d.NodeID, d.ID)); err != nil && !api.IsNotFound(err) {
			return fmt.Errorf("cannot remove %s from the tailnet: %w", host, err)
		}
	}
	return nil
}

// Headscale mints through a Headscale's REST API.
type Headscale struct {
	URL    string
	APIKey string
	User   string   // the numeric ID of the user that the nodes belong to
	Tags   []string // tag:… each. At least one
	HTTP   *http.Client
	Now    func() time.Time // nil is the system's clock
}

// Mint implements Minter.
func (h Headscale) Mint(ctx context.Context, host string) (string, error) {
	if err := checkTags(h.Tags); err != nil {
		return "", err
	}
	now := time.Now
	if h.Now != nil {
		now = h.Now
	}
	var answer struct {
		PreAuthKey struct {
			Key string `json:"key"`
		} `json:"preAuthKey"`
	}
	err := h.call(ctx, http.MethodPost, "/api/v1/preauthkey", map[string]any{
		"user": h.User, "reusable": false, "ephemeral": true, "aclTags": h.Tags,
		"expiration": now().Add(KeyLife).UTC().Format(time.RFC3339),
	}, &answer)
	if err == nil && answer.PreAuthKey.Key == "" {
		err = errors.New("the answer holds none")
	}
	if err != nil {
		return "", fmt.Errorf("cannot mint a key for %s at Headscale: %w", host, err)
	}
	return answer.PreAuthKey.Key, nil
}

// Remove implements Minter.
func (h Headscale) Remove(ctx context.Context, host string) error {
	var answer struct {
		Nodes []struct {
			ID        string   `json:"id"`
			GivenName string   `json:"givenName"`
			Forced    []string `json:"forcedTags"`
			Valid     []string `json:"validTags"`
			Tags      []string `json:"tags"`
		} `json:"nodes"`
	}
	if err := h.call(ctx, http.MethodGet, "/api/v1/node", nil, &answer); err != nil {
		return fmt.Errorf("cannot list Headscale's nodes: %w", err)
	}
	for _, n := range answer.Nodes {
		if n.GivenName != host || !sharesTag(append(append(n.Forced, n.Valid...), n.Tags...), h.Tags) {
			continue
		}
		if err := h.call(ctx, http.MethodDelete, "/api/v1/node/"+url.PathEscape(n.ID), nil, nil); err != nil {
			return fmt.Errorf("cannot remove %s from Headscale: %w", host, err)
		}
	}
	return nil
}

func (h Headscale) call(ctx context.Context, method, path string, body, answer any) error {
	var reader io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		reader = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(h.URL, "/")+path, reader)
	if err != nil {
		return errors.New("its address is not a URL")
	}
	req.Header.Set("Authorization", "Bearer "+h.APIKey)
	req.Header.Set("Content-Type", "application/json")
	client := h.HTTP
	if client == nil {
		client = &http.Client{Timeout: 30 * time.Second}
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s: %s", resp.Status, strings.TrimSpace(string(text[:min(len(text), 200)])))
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

// checkTags refuses untagged keys: their nodes would be a person's, with that person's rights.
func checkTags(tags []string) error {
	if len(tags) == 0 {
		return errors.New("cannot mint a key without a tag: a node without one has the rights of whoever made the key")
	}
	for _, t := range tags {
		if !strings.HasPrefix(t, "tag:") || len(t) == len("tag:") {
			return fmt.Errorf("cannot mint a key with the tag %q: it must read tag:NAME", t)
		}
	}
	return nil
}

func sharesTag(a, b []string) bool {
	for _, x := range a {
		if slices.Contains(b, x) {
			return true
		}
	}
	return false
}
