package install

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// connectGitHub begins to make a GitHub App, as the machine's owner, and says where to go on in a browser.
func connectGitHub(ctx context.Context, out io.Writer, socket, url, organization string) error {
	body, err := json.Marshal(map[string]string{"organization": organization, "public_url": url})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://local/api/v1/github/manifest", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := localClient(socket).Do(req)
	if err != nil {
		return fmt.Errorf("cannot begin to connect GitHub: %w", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("cannot begin to connect GitHub: %w", err)
	}
	var answer struct {
		URL    string `json:"url"`
		Detail string `json:"detail"` // of a problem
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.URL == "" || resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("cannot begin to connect GitHub; Zoomies itself runs: %s", strings.TrimSpace(answer.Detail+" "+resp.Status))
	}
	fmt.Fprintf(out, "  connect GitHub:         open this within an hour, in a browser that is signed in to GitHub:\n    %s\n", answer.URL)
	return nil
}
