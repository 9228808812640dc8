package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// githubPatience bounds how long a request of a person waits for GitHub.
const githubPatience = 20 * time.Second

// The kinds of account that an App is installed on, as GitHub calls them.
const (
	accountOrganization = "Organization"
	accountUser         = "User"
)

// kindOf is the kind of account of an installation.
func kindOf(in github.AppInstallation) string {
	if in.TargetType != "" {
		return in.TargetType
	}
	return in.Account.Type
}

// discover asks GitHub whose installation the row is. GitHub's word counts; when GitHub cannot be asked, what the row says of the
// account does, if it says it.
func (s *Server) discover(ctx context.Context, row store.Installation) (store.Installation, error) {
	if err := github.CheckPrivateKey(row.PrivateKey); err != nil {
		return row, invalid("body.private_key", "%s", err)
	}
	if github.Held(s.now(), row.HoldUntil) {
		return row, nil // GitHub asked to be left alone; a check later tells
	}
	app, err := s.apps.App(row.BaseURL, row.AppID, row.PrivateKey)
	if err != nil {
		return row, githubProblem(err) // its base URL
	}
	asking, cancel := context.WithTimeout(ctx, githubPatience)
	defer cancel()
	got, err := app.Installation(asking, row.InstallationID)
	switch {
	case ctx.Err() != nil:
		return row, ctx.Err()
	case errors.Is(err, github.ErrUnauthorized):
		return row, invalid("body.private_key", "GitHub does not take this key for App %d: %s", row.AppID, err)
	case errors.Is(err, github.ErrNotFound):
		return row, invalid("body.installation_id", "GitHub knows no installation %d of App %d", row.InstallationID, row.AppID)
	case err != nil && (row.Account == "" || row.AccountType == ""):
		return row, invalid("body.account", "GitHub cannot be asked whose installation this is (%s): give account and account_type, or try again later", err)
	case err != nil:
		return row, nil
	}
	kind := kindOf(got)
	switch {
	case kind != accountOrganization && kind != accountUser:
		return row, invalid("body.installation_id", "installation %d is of the %s %s: install the App on an organisation or a user", got.ID, strings.ToLower(kind), got.Account.Name())
	case row.Account != "" && !strings.EqualFold(row.Account, got.Account.Login):
		return row, invalid("body.account", "installation %d is of %s, GitHub says", got.ID, got.Account.Login)
	case row.AccountType != "" && row.AccountType != kind:
		return row, invalid("body.account_type", "GitHub says that %s is of the kind %s", got.Account.Login, kind)
	}
	row.Account, row.AccountType = got.Account.Login, kind
	return row, nil
}

// githubProblem is what a caller is told when GitHub does not do what they asked for. It is no fault of the controller's.
func githubProblem(err error) error {
	if limit, ok := errors.AsType[*github.LimitError](err); ok {
		return problem(http.StatusTooManyRequests, "GitHub asked the fleet to wait: "+limit.Reason+".", fmt.Sprintf("Try again after %s.", limit.Until.UTC().Format(time.RFC3339)))
	}
	fix := "Try again; if it stays so, check that the controller reaches GitHub, also through a proxy."
	switch {
	case errors.Is(err, github.ErrUnauthorized):
		fix = "The App may have been deleted, or its key revoked: look at its page at GitHub, and forget the App here if it is gone."
	case errors.Is(err, github.ErrNotFound):
		fix = "Look at the App's page at GitHub."
	}
	return problem(http.StatusConflict, sentence(err), fix)
}
