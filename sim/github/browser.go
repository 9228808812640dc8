package github

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

var (
	formAction = regexp.MustCompile(`<form method="post" action="([^"]+)">`)
	formField  = regexp.MustCompile(`name="manifest" value="([^"]+)"`)
)

// Click does what a person with a browser does in the manifest flow: it opens the page at address, sends its form to this GitHub, and
// follows where that leads. It returns the last page. A nil client is http.DefaultClient.
func Click(ctx context.Context, hc *http.Client, address string) (string, error) {
	page, err := browse(ctx, hc, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	action, manifest := formAction.FindStringSubmatch(page), formField.FindStringSubmatch(page)
	if action == nil || manifest == nil {
		return page, errors.New("cannot send the form: there is none on the page")
	}
	return browse(ctx, hc, http.MethodPost, html.UnescapeString(action[1]), url.Values{"manifest": {html.UnescapeString(manifest[1])}})
}

func browse(ctx context.Context, hc *http.Client, method, address string, form url.Values) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form.Encode()))
	if err != nil {
		return "", fmt.Errorf("cannot browse to %s: %w", address, err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if hc == nil {
		hc = http.DefaultClient
	}
	resp, err := hc.Do(req)
	if err != nil {
		return "", fmt.Errorf("cannot browse to %s: %w", address, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", fmt.Errorf("cannot read the page at %s: %w", address, err)
	}
	return string(raw), nil
}
