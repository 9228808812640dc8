package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/secrets"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// setupTTL is how long the command of a provider setup can be run.
const setupTTL = time.Hour

// Gateways are the tunnel's part in connections to providers.
type Gateways interface {
	// Terms are what a gateway must know: the relay to be found at, and the controller's key, its only client. Neither is a secret.
	Terms(ctx context.Context) (relay, admit string, err error)
	// Admit lets the gateway of that address use the relay. It is asked again for the same address, and refuses what is none.
	Admit(ctx context.Context, name, address string) error
}

// ProviderSetup is a connection to a provider that a command on the provider's own machine sets up.
type ProviderSetup struct {
	ID          string     `json:"id" doc:"set_…"`
	Name        string     `json:"name" doc:"Of the connection"`
	State       string     `json:"state" enum:"open,ready,expired" doc:"open: the command is to be run; ready: the connection is there; expired: the command was not run in time"`
	Endpoint    string     `json:"endpoint,omitempty" doc:"Of the provider's API, once the connection is there"`
	CreatedAt   time.Time  `json:"created_at"`
	ExpiresAt   time.Time  `json:"expires_at" doc:"Until when the command can be run"`
	CompletedAt *time.Time `json:"completed_at,omitempty"`
}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (ProviderSetup) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s, "endpoint", "completed_at")
}

// ProviderSetupSpec is a new provider setup.
type ProviderSetupSpec struct {
	Name     string   `json:"name" minLength:"2" maxLength:"40" pattern:"^[a-z][a-z0-9-]*[a-z0-9]$" doc:"Of the connection, unique; lower-case letters, digits and hyphens"`
	Pool     string   `json:"pool" maxLength:"64" pattern:"^[A-Za-z][A-Za-z0-9._-]*$" default:"zoomies" doc:"Proxmox's resource pool that machines are made in; it is made where there is none"`
	Storages []string `json:"storages" required:"false" maxItems:"16" doc:"Storages that machines may use; without any the command chooses"`
	Bridge   string   `json:"bridge" maxLength:"15" pattern:"^[A-Za-z][A-Za-z0-9_.-]*$" default:"vmbr0" doc:"Bridge that machines are connected to"`
}

// TransformSchema implements huma.SchemaTransformer: what has a default may be left out.
func (ProviderSetupSpec) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return defaultsOptional(s)
}

// CreatedProviderSetup is a provider setup with its command.
type CreatedProviderSetup struct {
	ProviderSetup
	Command string `json:"command" doc:"To be run as root on a node of the provider, once, within the hour. It carries the capability and is shown this once"`
}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (CreatedProviderSetup) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s, "endpoint", "completed_at")
}

// ProviderConnection is what a provider setup's command posts, once.
type ProviderConnection struct {
	Endpoint    string   `json:"endpoint" maxLength:"300" pattern:"^https://[A-Za-z0-9.:\\[\\]-]+$" doc:"The API's address, under the name that its certificate has"`
	CA          string   `json:"ca,omitempty" maxLength:"65536" doc:"PEM of what the certificate must come from; empty for an authority that everybody knows"`
	Fingerprint string   `json:"fingerprint" pattern:"^sha256:[0-9a-f]{64}$" doc:"Of the certificate"`
	Node        string   `json:"node" maxLength:"63" doc:"That the gateway runs on"`
	Version     string   `json:"version" maxLength:"40" doc:"Of the provider"`
	TokenID     string   `json:"token_id" maxLength:"130" pattern:"^[^@!]+@[^@!]+![^@!]+$" doc:"The API token's name"`
	TokenSecret string   `json:"token_secret" writeOnly:"true" minLength:"1" maxLength:"200" doc:"The API token's secret"`
	Gateway     string   `json:"gateway" minLength:"1" maxLength:"8192" doc:"The gateway's address in the tunnel"`
	Pool        string   `json:"pool" maxLength:"64"`
	Storages    []string `json:"storages" minItems:"1" maxItems:"16"`
	Bridge      string   `json:"bridge" maxLength:"15"`
}

// ProviderCompletion spends a provider setup's capability.
type ProviderCompletion struct {
	Token      string             `json:"token" writeOnly:"true" minLength:"1" maxLength:"200" doc:"The capability of the command"`
	Connection ProviderConnection `json:"connection"`
}

type (
	// ProviderSetupPath names one in a path; huma looks only into exported types.
	ProviderSetupPath struct {
		ID string `path:"id" maxLength:"64" doc:"The setup's ID"`
	}
	providerSetupOutput        struct{ Body ProviderSetup }
	createdProviderSetupOutput struct{ Body CreatedProviderSetup }
	providerSetupsOutput       struct{ Body Page[ProviderSetup] }
	listProviderSetups         struct {
		PageParams
		Sort string `query:"sort" enum:"name,-name,created_at,-created_at" default:"name"`
		Name string `query:"name" maxLength:"40" doc:"Only the setup of this connection"`
	}
	createProviderSetup   struct{ Body ProviderSetupSpec }
	completeProviderSetup struct{ Body ProviderCompletion }
)

func addProviderSetups(s *Server) {
	register(s, "list-provider-setups", s.listProviderSetups)
	register(s, "create-provider-setup", s.createProviderSetup)
	register(s, "complete-provider-setup", s.completeProviderSetup)
	register(s, "get-provider-setup", s.getProviderSetup)
	register(s, "delete-provider-setup", s.deleteProviderSetup)
}

func (s *Server) viewProviderSetup(p store.ProviderSetup) ProviderSetup {
	v := ProviderSetup{ID: p.ID, Name: p.Name, State: "open", Endpoint: p.Endpoint, CreatedAt: p.CreatedAt, ExpiresAt: p.ExpiresAt, CompletedAt: optional(p.CompletedAt)}
	switch {
	case !p.CompletedAt.IsZero():
		v.State = "ready"
	case !s.now().Before(p.ExpiresAt):
		v.State = "expired"
	}
	return v
}

func (s *Server) listProviderSetups(ctx context.Context, in *listProviderSetups) (*providerSetupsOutput, error) {
	rows, err := s.store.ProviderSetups(ctx)
	if err != nil {
		return nil, err
	}
	var all []ProviderSetup
	for _, p := range rows {
		if in.Name == "" || in.Name == p.Name {
			all = append(all, s.viewProviderSetup(p))
		}
	}
	page, err := paginate(all, in.PageParams, in.Sort, keys[ProviderSetup]{
		"name": func(p ProviderSetup) string { return p.Name }, "created_at": func(p ProviderSetup) string { return timeKey(p.CreatedAt) },
	}, func(p ProviderSetup) string { return p.ID })
	return &providerSetupsOutput{page}, err
}

func (s *Server) getProviderSetup(ctx context.Context, in *ProviderSetupPath) (*providerSetupOutput, error) {
	p, err := s.store.ProviderSetup(ctx, in.ID)
	return &providerSetupOutput{s.viewProviderSetup(p)}, err
}

func (s *Server) createProviderSetup(ctx context.Context, in *createProviderSetup) (*createdProviderSetupOutput, error) {
	for i, name := range in.Body.Storages {
		if !storageName.MatchString(name) {
			return nil, invalid(fmt.Sprintf("body.storages[%d]", i), "%.64q is no name of a storage", name)
		}
	}
	switch {
	case s.gateways == nil:
		return nil, problem(http.StatusConflict, "This controller has no tunnel, so no gateway can be reached.", "Turn the tunnel on, or add a provider that the controller can reach by itself.")
	case !strings.HasPrefix(s.agentURL, "https://"):
		return nil, problem(http.StatusConflict, "Other machines do not reach this controller over TLS yet.", "Set listen, or public_url to the address of a proxy.")
	}
	relay, admit, err := s.gateways.Terms(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot say how a gateway reaches the tunnel: %w", err)
	}
	secret := auth.NewToken(auth.PrefixGateway)
	p := store.ProviderSetup{ID: store.NewID(store.IDSetup), Name: in.Body.Name, Hash: auth.HashToken(secret), CreatedAt: s.now(), ExpiresAt: s.now().Add(setupTTL)}
	err = s.do(ctx, change{kind: "provider-setup", id: p.ID, name: p.Name, after: s.viewProviderSetup(p)}, func(ctx context.Context) (err error) {
		p, err = s.store.CreateProviderSetup(ctx, p)
		return err
	})
	if errors.Is(err, store.ErrConflict) {
		return nil, problem(http.StatusConflict, fmt.Sprintf("There is another setup of a connection %s.", in.Body.Name), "Delete it, or choose another name.")
	} else if err != nil {
		return nil, err
	}
	return &createdProviderSetupOutput{CreatedProviderSetup{s.viewProviderSetup(p), s.gatewayCommand(in.Body, secret, relay, admit)}}, nil
}

func (s *Server) deleteProviderSetup(ctx context.Context, in *ProviderSetupPath) (*struct{}, error) {
	p, err := s.store.ProviderSetup(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return nil, s.do(ctx, change{kind: "provider-setup", id: p.ID, name: p.Name, before: s.viewProviderSetup(p)}, func(ctx context.Context) error {
		return s.store.DeleteProviderSetup(ctx, p.ID)
	})
}

// completeProviderSetup tells an unknown, a spent and an expired capability apart for nobody.
func (s *Server) completeProviderSetup(ctx context.Context, in *completeProviderSetup) (*providerSetupOutput, error) {
	address := requestOf(ctx).address
	succeeded, err := s.signin.Prove(address)
	if err != nil {
		return nil, signInProblem(err)
	}
	hash := auth.HashToken(in.Body.Token)
	p, err := s.store.ProviderSetupByHash(ctx, hash)
	if err != nil {
		return nil, s.refuseCompletion(err, address)
	}
	c := in.Body.Connection
	if u, err := url.Parse(c.Endpoint); err != nil || u.Hostname() == "" || u.Path != "" {
		return nil, invalid("body.connection.endpoint", "an endpoint is an address such as https://pve1.example.org:8006")
	}
	if s.gateways == nil {
		return nil, problem(http.StatusConflict, "This controller has no tunnel any more.", "Turn the tunnel on, and run the command again.")
	}
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	before, after := s.viewProviderSetup(p), p
	after.Endpoint, after.CompletedAt = c.Endpoint, s.now()
	who := auth.Principal{Kind: auth.KindSetup, ID: p.ID, Name: p.Name, Via: p.ID}
	err = s.do(as(ctx, who), change{kind: "provider-setup", id: p.ID, name: p.Name, before: before, after: s.viewProviderSetup(after)}, func(ctx context.Context) (err error) {
		p, _, err = s.store.CompleteProviderSetup(ctx, hash, c.Endpoint, secrets.New(raw))
		return err
	})
	if err != nil {
		return nil, s.refuseCompletion(err, address)
	}
	succeeded()
	// After the row: what was not posted is let in nowhere. A repeat asks again.
	if err := s.gateways.Admit(ctx, p.Name, c.Gateway); err != nil {
		return nil, fmt.Errorf("cannot let the gateway of %s into the tunnel: %w", p.Name, err)
	}
	return &providerSetupOutput{s.viewProviderSetup(p)}, nil
}

func (s *Server) refuseCompletion(err error, address string) error {
	if !errors.Is(err, store.ErrTokenSpent) {
		return err
	}
	s.log.Warn("a provider setup was refused: its token is unknown, spent or expired", "address", address)
	return problem(http.StatusUnauthorized, "The setup's token is unknown, spent or expired.", "Have the controller make another command: zoomies providers setup create.")
}
