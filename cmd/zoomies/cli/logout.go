package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/client"
)

// logout revokes the stored token of a context. One that is no longer good is forgotten all the same.
func (a *app) logout(cmd *cobra.Command) error {
	to, err := a.choose()
	if err != nil {
		return err
	}
	own, err := tokenFileOf(to.name)
	if err != nil {
		return err
	}
	all, err := loadContexts()
	if err != nil {
		return err
	}
	stored := all.find(to.name)
	if stored == nil || stored.TokenFile != own {
		return notFoundError{"there is no token here that zoomies login made for this controller"}
	}
	c, err := client.New(to.options)
	if err != nil {
		return UsageError{err}
	}
	who, err := client.Decode[struct {
		Via string `json:"via"`
	}](cmd.Context(), c, http.MethodGet, "/api/v1/session", nil, nil)
	if err == nil && who.Via != "" {
		_, err = c.Call(cmd.Context(), http.MethodDelete, "/api/v1/tokens/"+url.PathEscape(who.Via), nil, nil)
	}
	if p, answered := problemIn(err); err != nil && (!answered || p.Status != http.StatusUnauthorized) {
		return err
	}
	if err := os.Remove(own); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the stored token: %w", err)
	}
	stored.TokenFile = ""
	if err := all.save(); err != nil {
		return err
	}
	if !a.flags.quiet {
		fmt.Fprintln(cmd.ErrOrStderr(), "signed out of", to.name)
	}
	return nil
}
