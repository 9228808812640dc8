package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/github"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// InstallationSpec is what connects an installation of a GitHub App by the App's key.
type InstallationSpec struct {
	Name           string `json:"name" required:"false" maxLength:"63" pattern:"^([A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)?$" doc:"Unique; empty takes the account's"`
	BaseURL        string `json:"base_url" required:"false" maxLength:"500" doc:"REST root: empty for github.com, https://HOST/api/v3 for GitHub Enterprise Server"`
	AppID          int64  `json:"app_id" minimum:"1" doc:"The App's ID"`
	InstallationID int64  `json:"installation_id" minimum:"1" doc:"GitHub's ID of the installation: the number at the end of its settings page's address"`
	PrivateKey     string `json:"private_key" writeOnly:"true" minLength:"1" maxLength:"16384" doc:"The App's private key, PEM"`
	WebhookSecret  string `json:"webhook_secret" required:"false" writeOnly:"true" maxLength:"255" doc:"The secret of the App's webhook, 16 characters at least; empty takes that of the App's other installations, or makes one"`
	Account        string `json:"account" required:"false" maxLength:"100" pattern:"^[A-Za-z0-9_-]*$" doc:"Organisation or user; needed only when GitHub cannot be asked"`
	AccountType    string `json:"account_type" required:"false" enum:",Organization,User" doc:"Needed only when GitHub cannot be asked"`
}

// InstallationPatch changes parts of an installation.
type InstallationPatch struct {
	Name          *string `json:"name,omitempty" minLength:"1" maxLength:"63" pattern:"^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$"`
	PrivateKey    *string `json:"private_key,omitempty" writeOnly:"true" minLength:"1" maxLength:"16384" doc:"A new key of the App, PEM. GitHub is asked whether it knows the key"`
	WebhookSecret *string `json:"webhook_secret,omitempty" writeOnly:"true" minLength:"16" maxLength:"255" doc:"The new secret of the App's webhook"`
	Account       *string `json:"account,omitempty" minLength:"1" maxLength:"100" pattern:"^[A-Za-z0-9_-]+$" doc:"The account's new name, when it was renamed"`
}

// Installation is an installation of a GitHub App as the API shows it.
type Installation struct {
	ID               string     `json:"id" doc:"ins_…"`
	Name             string     `json:"name"`
	BaseURL          string     `json:"base_url" doc:"REST root; empty for github.com"`
	AppID            int64      `json:"app_id"`
	InstallationID   int64      `json:"installation_id" doc:"GitHub's ID"`
	Account          string     `json:"account" doc:"Organisation or user"`
	AccountType      string     `json:"account_type" doc:"Organization or User"`
	HasWebhookSecret bool       `json:"has_webhook_secret" doc:"Without one no delivery can be verified"`
	HoldUntil        *time.Time `json:"hold_until,omitempty" doc:"GitHub asked the fleet to wait until then"`
	HoldReason       string     `json:"hold_reason,omitempty"`
	LastDeliveryAt   *time.Time `json:"last_delivery_at,omitempty" doc:"When its last webhook arrived"`
	CreatedAt        time.Time  `json:"created_at"`
	UpdatedAt        time.Time  `json:"updated_at"`
}

// NewInstallation is an installation that was just connected.
type NewInstallation struct {
	Installation
	WebhookSecret string `json:"webhook_secret,omitempty" doc:"Only when it was made here, and only now: set it at the App's webhook"`
}

var installationOptional = []string{"hold_until", "hold_reason", "last_delivery_at"}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (Installation) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s, installationOptional...)
}

// TransformSchema implements huma.SchemaTransformer.
func (NewInstallation) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s, append([]string{"webhook_secret"}, installationOptional...)...)
}

func (s *Server) viewInstallation(in store.Installation) Installation {
	v := Installation{
		ID: in.ID, Name: in.Name, BaseURL: in.BaseURL, AppID: in.AppID, InstallationID: in.InstallationID, Account: in.Account,
		AccountType: in.AccountType, HasWebhookSecret: !in.WebhookSecret.Empty(), LastDeliveryAt: optional(in.LastDeliveryAt),
		CreatedAt: in.CreatedAt, UpdatedAt: in.UpdatedAt,
	}
	if github.Held(s.now(), in.HoldUntil) {
		v.HoldUntil, v.HoldReason = optional(in.HoldUntil), in.HoldReason
	}
	return v
}

type (
	// InstallationPath names one in a path; huma looks only into exported types.
	InstallationPath struct {
		ID string `path:"id" maxLength:"64" doc:"The installation's ID, ins_…"`
	}
	installationOutput    struct{ Body Installation }
	newInstallationOutput struct{ Body NewInstallation }
	installationsOutput   struct{ Body Page[Installation] }
	listInstallations     struct {
		PageParams
		Sort    string `query:"sort" enum:"name,-name,created_at,-created_at" default:"name"`
		Account string `query:"account" maxLength:"100" doc:"Only installations of this organisation or user"`
	}
	createInstallation struct{ Body InstallationSpec }
	updateInstallation struct {
		InstallationPath
		IfMatch string `header:"If-Match" doc:"Change it only while its ETag is this"`
		Body    InstallationPatch
	}
	deleteInstallation struct {
		InstallationPath
		IfMatch string `header:"If-Match" doc:"Forget it only while its ETag is this"`
	}
)

func addInstallations(s *Server) {
	register(s, "list-installations", s.listInstallations)
	register(s, "create-installation", s.createInstallation)
	register(s, "get-installation", s.getInstallation)
	register(s, "update-installation", s.updateInstallation)
	register(s, "delete-installation", s.deleteInstallation)
	register(s, "check-installation", s.checkInstallation)
}

func (s *Server) listInstallations(ctx context.Context, in *listInstallations) (*installationsOutput, error) {
	rows, err := s.store.Installations(ctx)
	if err != nil {
		return nil, err
	}
	var all []Installation
	for _, row := range rows {
		if sees(ctx, storeTarget(row.ID)) && (in.Account == "" || strings.EqualFold(in.Account, row.Account)) {
			all = append(all, s.viewInstallation(row))
		}
	}
	page, err := paginate(all, in.PageParams, in.Sort, keys[Installation]{
		"name": func(v Installation) string { return v.Name }, "created_at": func(v Installation) string { return timeKey(v.CreatedAt) },
	}, func(v Installation) string { return v.ID })
	return &installationsOutput{page}, err
}

func (s *Server) getInstallation(ctx context.Context, in *InstallationPath) (*installationOutput, error) {
	row, err := s.store.Installation(ctx, in.ID)
	return &installationOutput{s.viewInstallation(row)}, err
}

func (s *Server) createInstallation(ctx context.Context, in *createInstallation) (*newInstallationOutput, error) {
	b := in.Body
	row := store.Installation{
		ID: store.NewID(store.IDInstallation), Name: b.Name, AppID: b.AppID, InstallationID: b.InstallationID,
		Account: b.Account, AccountType: b.AccountType, PrivateKey: secrets.Of(b.PrivateKey), WebhookSecret: secrets.Of(b.WebhookSecret),
	}
	var err error
	if row.BaseURL, err = github.CheckBaseURL(b.BaseURL); err != nil {
		return nil, invalid("body.base_url", "%s", err)
	}
	if row, err = s.discover(ctx, row); err != nil {
		return nil, err
	}
	if row.Name == "" {
		row.Name = row.Account
	}
	made := ""
	if n := len(b.WebhookSecret); n > 0 && n < minWebhookSecret {
		return nil, invalid("body.webhook_secret", "a webhook secret has %d characters at least, since whoever guesses it can invent jobs", minWebhookSecret)
	} else if n == 0 {
		if row.WebhookSecret, err = s.webhookSecretOf(ctx, row.BaseURL, row.AppID); err != nil {
			return nil, err
		}
		if row.WebhookSecret.Empty() {
			made = rand.Text()
			row.WebhookSecret = secrets.Of(made)
		}
	}
	row.CreatedAt = s.now()
	row.UpdatedAt = row.CreatedAt
	err = s.do(ctx, change{kind: "installation", id: row.ID, name: row.Name, after: s.viewInstallation(row)}, func(ctx context.Context) error {
		_, err := s.store.CreateInstallation(ctx, row)
		return err
	})
	if err != nil {
		return nil, s.installationConflict(ctx, err, row)
	}
	s.fleet.Look()
	if row, err = s.store.Installation(ctx, row.ID); err != nil {
		return nil, err
	}
	return &newInstallationOutput{NewInstallation{Installation: s.viewInstallation(row), WebhookSecret: made}}, nil
}

const minWebhookSecret = 16

// webhookSecretOf is the secret of an App's webhook, as another installation of it or the App itself has it. Empty when it is not
// known: an App has one webhook for all its installations.
func (s *Server) webhookSecretOf(ctx context.Context, base string, appID int64) (secrets.Value, error) {
	rows, err := s.store.Installations(ctx)
	if err != nil {
		return secrets.Value{}, err
	}
	for _, in := range rows {
		if in.BaseURL == base && in.AppID == appID && !in.WebhookSecret.Empty() {
			return in.WebhookSecret, nil
		}
	}
	apps, err := s.store.GitHubApps(ctx)
	for _, a := range apps {
		if a.BaseURL == base && a.AppID == appID {
			return a.WebhookSecret, nil
		}
	}
	return secrets.Value{}, err
}

// installationConflict says what exactly is there already.
func (s *Server) installationConflict(ctx context.Context, err error, row store.Installation) error {
	if !errors.Is(err, store.ErrConflict) {
		return err
	}
	rows, lerr := s.store.Installations(ctx)
	if lerr != nil {
		return errors.Join(err, lerr)
	}
	for _, r := range rows {
		if r.BaseURL == row.BaseURL && r.InstallationID == row.InstallationID && r.ID != row.ID {
			return problem(http.StatusConflict, fmt.Sprintf("GitHub's installation %d is connected already, as %s (%s).", r.InstallationID, r.Name, r.ID), "Change that one instead.")
		}
	}
	return problem(http.StatusConflict, fmt.Sprintf("There is another installation with the name %s.", row.Name), "Choose another name.")
}

func (s *Server) updateInstallation(ctx context.Context, in *updateInstallation) (*installationOutput, error) {
	row, err := s.store.Installation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	before := s.viewInstallation(row)
	if err := ifMatch(in.IfMatch, before); err != nil {
		return nil, err
	}
	var replaced []string
	if in.Body.Name != nil {
		row.Name = *in.Body.Name
	}
	if in.Body.Account != nil {
		row.Account = *in.Body.Account
	}
	if in.Body.WebhookSecret != nil {
		row.WebhookSecret, replaced = secrets.Of(*in.Body.WebhookSecret), append(replaced, "webhook_secret")
	}
	if in.Body.PrivateKey != nil {
		row.PrivateKey, replaced = secrets.Of(*in.Body.PrivateKey), append(replaced, "private_key")
	}
	if in.Body.PrivateKey != nil || in.Body.Account != nil {
		if row, err = s.discover(ctx, row); err != nil {
			return nil, err
		}
	}
	// What the audit log shows of a secret is that it was replaced.
	after := struct {
		Installation
		Replaced []string `json:"replaced,omitempty"`
	}{s.viewInstallation(row), replaced}
	err = s.do(ctx, change{kind: "installation", id: row.ID, name: row.Name, before: before, after: after}, func(ctx context.Context) error {
		return s.store.UpdateInstallation(ctx, row)
	})
	if err != nil {
		return nil, s.installationConflict(ctx, err, row)
	}
	s.fleet.Look()
	row, err = s.store.Installation(ctx, in.ID)
	return &installationOutput{s.viewInstallation(row)}, err
}

func (s *Server) deleteInstallation(ctx context.Context, in *deleteInstallation) (*struct{}, error) {
	row, err := s.store.Installation(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	before := s.viewInstallation(row)
	if err := ifMatch(in.IfMatch, before); err != nil {
		return nil, err
	}
	err = s.do(ctx, change{kind: "installation", id: row.ID, name: row.Name, before: before}, func(ctx context.Context) error {
		return s.store.DeleteInstallation(ctx, in.ID)
	})
	if err == nil {
		s.fleet.Look()
	}
	return nil, err
}
