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
	"strings"
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
			"prints it; and on standard error the command to give it to on the host. It works once, for a host of that name.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := loadConfig(configFile, nil)
			if err != nil {
				return err
			}
			t, err := askJoinToken(cmd.Context(), serve.LocalSocket(cfg.DataDir), host, ttl)
			if err != nil {
				return err
			}
			fmt.Fprint(cmd.ErrOrStderr(), t.advice(host)) // not with the token: that is often sent to a file
			_, err = fmt.Fprintln(cmd.OutOrStdout(), t.Token)
			return err
		},
	}
	c.Flags().StringVar(&configFile, "config", "", "path of zoomies.yaml")
	c.Flags().StringVar(&host, "host", "", "name of the host that will join (required)")
	c.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long the token may lie around before it is used")
	_ = c.MarkFlagRequired("host") // the flag exists
	return c
}

// madeToken is a join token with how its host finds the controller.
type madeToken struct {
	Token      string `json:"token"`
	Controller string `json:"controller"`
	CAPin      string `json:"ca_pin"`
}

// advice is the command for the host. The token itself is not in it: a process list is no place for a secret.
func (t madeToken) advice(host string) string {
	to, note := t.Controller, ""
	if to == "" {
		to, note = "https://ADDRESS", "Other machines do not reach this controller yet: set listen, or public_url to a proxy's address.\n"
	}
	pin := ""
	if t.CAPin != "" {
		pin = " --ca-pin " + t.CAPin
	}
	return fmt.Sprintf("%sOn %s, with the token in a file:\n  zoomies agent --controller %s%s --name %s --token-file FILE\n", note, host, to, pin, host)
}

func askJoinToken(ctx context.Context, socket, host string, ttl time.Duration) (madeToken, error) {
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		},
	}}
	body, err := json.Marshal(map[string]string{"host_name": host, "ttl": ttl.String()})
	if err != nil {
		return madeToken{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://local/api/v1/join-tokens", bytes.NewReader(body))
	if err != nil {
		return madeToken{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED):
		return madeToken{}, fmt.Errorf("cannot make a join token: no controller runs here: none answers on %s; start it, or set data_dir", socket)
	case err != nil:
		return madeToken{}, fmt.Errorf("cannot make a join token: the controller does not answer on %s; is it running, and are you its user?: %w", socket, err)
	}
	defer resp.Body.Close()
	var answer struct {
		madeToken
		Detail string `json:"detail"` // of a problem
		Errors []struct {
			Message string `json:"message"`
		} `json:"errors"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return madeToken{}, fmt.Errorf("cannot read the controller's answer: %w", err)
	}
	if resp.StatusCode != http.StatusCreated || answer.Token == "" {
		var why strings.Builder
		why.WriteString(answer.Detail)
		for _, e := range answer.Errors {
			why.WriteString("; " + e.Message)
		}
		return madeToken{}, fmt.Errorf("cannot make a join token: %s", why.String())
	}
	return answer.madeToken, nil
}
