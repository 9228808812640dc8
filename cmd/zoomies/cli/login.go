package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/client"
)

type loginFlags struct{ name, user, passwordFile, expires string }

func loginCommand(a *app) *cobra.Command {
	var f loginFlags
	c := &cobra.Command{
		Use: "login", Short: "Sign in, and keep an API token for the commands to come", Args: usage(cobra.NoArgs),
		Long: "Sign in with a name and a password, make an API token that can do what you can, and keep it in a file that only you can read.\n" +
			"The commands to come use it. The password is kept nowhere.",
		Example: "  zoomies login --server https://zoomies.example.com:8443 --user ada",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.login(cmd, f) },
	}
	fl := c.Flags()
	fl.StringVar(&f.name, "name", "", "name of the context (default: the server's host)")
	fl.StringVar(&f.user, "user", "", "name of the user (default: asked for)")
	fl.StringVar(&f.passwordFile, "password-file", "", "file with the password, - for the standard input (default: asked for)")
	fl.StringVar(&f.expires, "expires", "", "how long the token is good, such as 720h (default: the controller's)")
	return a.connected(c)
}

func (a *app) login(cmd *cobra.Command, f loginFlags) error {
	to, err := a.choose()
	if err != nil {
		return err
	}
	if f.name == "" {
		f.name = contextNameOf(to)
	}
	if err := checkContextName(f.name); err != nil {
		return err
	}
	if f.user == "" {
		if f.user, err = prompt(cmd, "User"); err != nil {
			return err
		}
	}
	password, err := a.password(cmd, f.passwordFile)
	if err != nil {
		return err
	}
	to.options.Token = ""
	secret, err := tokenBy(cmd.Context(), to.options, f, password)
	if err != nil {
		return err
	}
	path, err := tokenFileOf(f.name)
	if err != nil {
		return err
	}
	if err := writePrivate(path, []byte(secret+"\n")); err != nil {
		return err
	}
	all, err := loadContexts()
	if err != nil {
		return err
	}
	all.put(storedContext{Name: f.name, Server: to.options.Server, Socket: to.options.Socket, TokenFile: path, CAFile: to.options.CAFile, Pin: to.options.PinSHA256})
	all.Current = f.name
	if err := all.save(); err != nil {
		return err
	}
	if !a.flags.quiet {
		fmt.Fprintf(cmd.ErrOrStderr(), "signed in as %s; commands now go to %s\n", f.user, f.name)
	}
	return nil
}

func (a *app) password(cmd *cobra.Command, file string) (string, error) {
	if file != "" {
		return readSecret(cmd, file)
	}
	return promptSecret(cmd, "password")
}

// contextNameOf is what a context is called when nobody says.
func contextNameOf(to chosen) string {
	if to.name != "" && to.name != localName {
		return to.name
	}
	if u, err := url.Parse(to.options.Server); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	return "this-machine"
}

// tokenBy signs in, makes an API token, and signs out again.
func tokenBy(ctx context.Context, o client.Options, f loginFlags, password string) (secret string, err error) {
	c, err := client.New(o)
	if err != nil {
		return "", UsageError{err}
	}
	cookie, err := signIn(ctx, c, f.user, password)
	if err != nil {
		return "", err
	}
	defer func() {
		_, out := cookied(context.WithoutCancel(ctx), c, http.MethodDelete, "/api/v1/session", cookie, nil)
		if out != nil && err == nil {
			err = fmt.Errorf("cannot sign out again: %w", out)
		}
	}()
	host, err := os.Hostname()
	if err != nil {
		host = "a machine"
	}
	ask := map[string]any{"name": tokenName(f.user, host), "scopes": []string{"*"}}
	if f.expires != "" {
		ask["expires_in"] = f.expires
	}
	raw, err := cookied(ctx, c, http.MethodPost, "/api/v1/tokens", cookie, ask)
	if err != nil {
		return "", err
	}
	var made struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(raw, &made); err != nil || made.Token == "" {
		return "", errors.Join(errors.New("cannot read the token in the controller's answer"), err)
	}
	return made.Token, nil
}

// signIn returns the session's cookie.
func signIn(ctx context.Context, c *client.Client, user, password string) (*http.Cookie, error) {
	raw, err := json.Marshal(map[string]string{"name": user, "password": password})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Base()+"/api/v1/session", bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	for _, k := range resp.Cookies() {
		if k.Value != "" {
			return k, nil
		}
	}
	return nil, errors.New("cannot sign in: the controller gave no session")
}

// cookied makes a request within a session.
func cookied(ctx context.Context, c *client.Client, method, path string, cookie *http.Cookie, body any) (json.RawMessage, error) {
	return c.CallWith(ctx, method, path, nil, body, func(req *http.Request) {
		req.AddCookie(&http.Cookie{Name: cookie.Name, Value: cookie.Value}) //nolint:gosec // sent by a client: it has no attributes
	})
}

func logoutCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "logout", Short: "Revoke the API token that login made, and forget it", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return a.logout(cmd) },
	}
	return a.connected(c)
}

var plainName = regexp.MustCompile(`[^A-Za-z0-9._-]`)

// tokenName tells this machine's token from others of the user's.
func tokenName(user, host string) string {
	host, _, _ = strings.Cut(host, ".")
	return strings.ToLower(fmt.Sprintf("login-%.20s-%.20s-%s", host, plainName.ReplaceAllString(user, "-"), rand.Text()[:6]))
}
