package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/cmd/zoomies/serve"
)

func joinTokenCommand() *cobra.Command {
	var configFile, host string
	var ttl time.Duration
	c := &cobra.Command{
		Use:   "join-token",
		Short: "Make a single-use token with which a host joins this machine's controller",
		Long: "Asks the controller that runs on this machine for a token, over a socket in its data folder that only the folder's owner can open, and\n" +
			"prints it. On the host, give it to `zoomies agent` in $" + joinTokenVariable + " or as a file. It works once, for a host of that name.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(configFile, nil)
			if err != nil {
				return err
			}
			token, err := askJoinToken(cmd.Context(), serve.LocalSocket(cfg.DataDir), host, ttl)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
			return err
		},
	}
	c.Flags().StringVar(&configFile, "config", "", "path of zoomies.yaml")
	c.Flags().StringVar(&host, "host", "", "name of the host that will join (required)")
	c.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long the token may lie around before it is used")
	_ = c.MarkFlagRequired("host") // the flag exists
	return c
}

func askJoinToken(ctx context.Context, socket, host string, ttl time.Duration) (string, error) {
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
	body, err := json.Marshal(map[string]string{"host_name": host, "ttl": ttl.String()})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://local/api/v1/join-tokens", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return "", fmt.Errorf("cannot make a join token: no controller runs here: none answers on %s; start it, or set data_dir", socket)
	case err != nil:
		return "", fmt.Errorf("cannot make a join token: the controller does not answer on %s; is it running, and are you its user?: %w", socket, err)
	}
	defer resp.Body.Close()
	var answer struct {
		Token  string `json:"token"`
		Detail string `json:"detail"` // of a problem
		Errors []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", fmt.Errorf("cannot read the controller's answer: %w", err)
	}
	if resp.StatusCode != http.StatusCreated || answer.Token == "" {
		why := answer.Detail
		for _, e := range answer.Errors {
			why += "; " + e.Message
		}
		return "", fmt.Errorf("cannot make a join token: %s", why)
	}
	return answer.Token, nil
}
