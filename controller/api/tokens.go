package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// APIToken lets a program act for a user. The token itself is shown once, when it is made.
type APIToken struct {
	ID         string     `json:"id" doc:"tok_…"`
	Name       string     `json:"name"`
	UserID     string     `json:"user_id" doc:"Whose it is; it can never do more than they"`
	UserName   string     `json:"user_name"`
	Grants     []Grant    `json:"grants" nullable:"false" doc:"What it may do, as far as its user may, too"`
	Scopes     []string   `json:"scopes" nullable:"false" doc:"To which parts of the API it is limited"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty" doc:"Absent for never"`
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty" doc:"To the minute"`
	Expired    bool       `json:"expired"`
}

// APITokenSpec is a new API token.
type APITokenSpec struct {
	Name      string   `json:"name" minLength:"1" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$" doc:"Unique; lower-case letters, digits and . _ -"`
	UserID    string   `json:"user_id" required:"false" maxLength:"64" doc:"Whose it is: oneself. The machine's owner names a user"`
	Grants    []Grant  `json:"grants" required:"false" maxItems:"200" doc:"What it may do; all that you may if absent"`
	Scopes    []string `json:"scopes" required:"false" maxItems:"50" minItems:"1" doc:"* or <area>:read or <area>:write, where write includes read; all that you may if absent"`
	ExpiresIn Duration `json:"expires_in" default:"2160h" doc:"How long it works, a year at most; 90 days if absent"`
	Never     bool     `json:"never_expires" required:"false" doc:"It works until it is revoked; for the role platform alone"`
}

// TransformSchema implements huma.SchemaTransformer: what has a default may be left out.
func (APITokenSpec) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return defaultsOptional(s)
}

// CreatedAPIToken is an API token with its secret.
type CreatedAPIToken struct {
	APIToken
	Token string `json:"token" doc:"Send it as Authorization: Bearer zoo_…; it is shown this once"`
}

func (s *Server) viewToken(t store.APIToken, user string) APIToken {
	return APIToken{
		ID: t.ID, Name: t.Name, UserID: t.UserID, UserName: user, Grants: viewGrants(t.Grants), Scopes: orEmpty(t.Scopes),
		ExpiresAt: optional(t.ExpiresAt), CreatedAt: t.CreatedAt, LastUsedAt: optional(t.LastUsedAt),
		Expired: !t.ExpiresAt.IsZero() && !s.now().Before(t.ExpiresAt),
	}
}

type (
	// TokenPath names one in a path; huma looks only into exported types.
	TokenPath struct {
		ID string `path:"id" maxLength:"64" doc:"The token's ID"`
	}
	createdTokenOutput struct{ Body CreatedAPIToken }
	tokensOutput       struct{ Body Page[APIToken] }
	listTokens         struct {
		PageParams
		Sort   string `query:"sort" enum:"name,-name,created_at,-created_at,last_used_at,-last_used_at" default:"name"`
		UserID string `query:"user_id" maxLength:"64" doc:"Only tokens of this user"`
		Name   string `query:"name" maxLength:"63" doc:"Only the token of this name"`
	}
	createToken struct{ Body APITokenSpec }
)

func addTokens(s *Server) {
	register(s, "list-tokens", s.listTokens)
	register(s, "create-token", s.createToken)
	register(s, "delete-token", s.deleteToken)
}

func (s *Server) listTokens(ctx context.Context, in *listTokens) (*tokensOutput, error) {
	r, err := s.reach(ctx)
	if err != nil {
		return nil, err
	}
	users, err := s.store.Users(ctx)
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, u := range users {
		if u.ID == r.who.UserID || r.sees(u.Grants) {
			names[u.ID] = u.Name
		}
	}
	rows, err := s.store.APITokens(ctx)
	if err != nil {
		return nil, err
	}
	var all []APIToken
	for _, t := range rows {
		if name, ok := names[t.UserID]; ok && (in.UserID == "" || t.UserID == in.UserID) && (in.Name == "" || t.Name == in.Name) {
			all = append(all, s.viewToken(t, name))
		}
	}
	page, err := paginate(all, in.PageParams, in.Sort, keys[APIToken]{
		"name": func(t APIToken) string { return t.Name }, "created_at": func(t APIToken) string { return timeKey(t.CreatedAt) },
		"last_used_at": func(t APIToken) string {
			if t.LastUsedAt == nil {
				return ""
			}
			return timeKey(*t.LastUsedAt)
		},
	}, func(t APIToken) string { return t.ID })
	return &tokensOutput{page}, err
}

func (s *Server) createToken(ctx context.Context, in *createToken) (*createdTokenOutput, error) {
	who := principal(ctx)
	owner, err := s.tokenOwner(ctx, who, in.Body.UserID)
	if err != nil {
		return nil, err
	}
	t := store.APIToken{ID: store.NewID(store.IDToken), Name: in.Body.Name, UserID: owner.ID, CreatedAt: s.now()}
	if t.Grants, err = s.tokenGrants(ctx, who, owner, in.Body.Grants); err != nil {
		return nil, err
	}
	if t.Scopes, err = tokenScopes(who, in.Body.Scopes); err != nil {
		return nil, err
	}
	if t.ExpiresAt, err = s.tokenEnd(ctx, who, in.Body); err != nil {
		return nil, err
	}
	secret := auth.NewToken(auth.PrefixAPI)
	t.Hash = auth.HashToken(secret)
	err = s.do(ctx, change{kind: "token", id: t.ID, name: t.Name, after: s.viewToken(t, owner.Name)}, func(ctx context.Context) (err error) {
		t, err = s.store.CreateAPIToken(ctx, t)
		return err
	})
	if store.NameTaken(err) {
		return nil, problem(http.StatusConflict, fmt.Sprintf("There is another API token with the name %s.", in.Body.Name), "Choose another name.")
	} else if err != nil {
		return nil, err
	}
	return &createdTokenOutput{CreatedAPIToken{s.viewToken(t, owner.Name), secret}}, nil
}

// tokenOwner is whose a new token is: the caller's user, or the one whom the machine's owner names.
func (s *Server) tokenOwner(ctx context.Context, who auth.Principal, id string) (store.User, error) {
	switch {
	case who.UserID != "" && (id == "" || id == who.UserID):
		return s.store.User(ctx, who.UserID)
	case who.UserID != "":
		return store.User{}, problem(http.StatusForbidden, "Nobody makes an API token for somebody else.", "Leave user_id out, or have them make it.")
	case id == "":
		return store.User{}, invalid("body.user_id", "the machine's owner is no user: say whose token it is")
	}
	u, err := s.store.User(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return u, invalid("body.user_id", "there is no user %.64s", id)
	}
	return u, err
}

// tokenGrants are those asked for, which the caller and the token's user must hold, or else all of the caller's.
func (s *Server) tokenGrants(ctx context.Context, who auth.Principal, owner store.User, asked []Grant) ([]store.Grant, error) {
	if asked == nil {
		if who.UserID == "" {
			return owner.Grants, nil
		}
		return grantRows(viewIdentity(who).Grants), nil
	}
	r, err := s.reach(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.check(asked); err != nil {
		return nil, err
	}
	r.who = auth.Principal{Kind: auth.KindUser}
	for _, g := range owner.Grants {
		r.who.Grants = append(r.who.Grants, authGrant(g))
	}
	return grantRows(asked), r.check(asked)
}

// tokenScopes are those asked for, which the caller must have, or else the caller's.
func tokenScopes(who auth.Principal, asked []string) ([]string, error) {
	if asked == nil {
		if who.Scopes == nil {
			return []string{"*"}, nil
		}
		return who.Scopes, nil
	}
	for i, scope := range asked {
		at := fmt.Sprintf("body.scopes[%d]", i)
		if err := auth.ValidateScope(scope); err != nil {
			return nil, invalid(at, "%s", err)
		}
		area, verb, _ := strings.Cut(scope, ":")
		if held := who.Scopes == nil || slices.Contains(who.Scopes, "*") || scope != "*" && who.InScope(auth.Area(area), verb == "write"); !held {
			return nil, problem(http.StatusForbidden, fmt.Sprintf("This API token's scopes do not include %s, so it cannot give it.", scope), "Make the token with a session.")
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(asked))), nil
}

// tokenEnd is when a new token expires. One that is made with a token does not outlive it: otherwise an expiry would mean nothing.
func (s *Server) tokenEnd(ctx context.Context, who auth.Principal, in APITokenSpec) (time.Time, error) {
	end := s.now().Add(in.ExpiresIn.Value())
	switch {
	case in.Never && !who.Can(auth.Platform, auth.AreaAccess, true, auth.Target{}):
		return end, problem(http.StatusForbidden, "An API token that never expires needs the role platform.", "Let it expire, within a year.")
	case in.Never:
		end = time.Time{}
	case in.ExpiresIn.Value() <= 0:
		return end, invalid("body.expires_in", "a token works for longer than no time")
	}
	if who.Kind != auth.KindToken {
		return end, nil
	}
	by, err := s.store.APIToken(ctx, who.ID)
	if err == nil && !by.ExpiresAt.IsZero() && (end.IsZero() || end.After(by.ExpiresAt)) {
		end = by.ExpiresAt
	}
	return end, err
}

func (s *Server) deleteToken(ctx context.Context, in *TokenPath) (*struct{}, error) {
	t, err := s.store.APIToken(ctx, in.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, notFound("API token", in.ID)
	} else if err != nil {
		return nil, err
	}
	u, _, err := s.ownOrWithin(ctx, t.UserID)
	if _, hidden := errors.AsType[*Problem](err); hidden {
		return nil, notFound("API token", in.ID)
	} else if err != nil {
		return nil, err
	}
	return nil, s.do(ctx, change{kind: "token", id: t.ID, name: t.Name, before: s.viewToken(t, u.Name)}, func(ctx context.Context) error {
		return s.store.DeleteAPIToken(ctx, t.ID)
	})
}
