package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
)

// Identity says who makes a request, and what they may do.
type Identity struct {
	Kind   string   `json:"kind" enum:"user,token,local" doc:"A signed-in user, an API token, or the machine's owner over the local socket"`
	Name   string   `json:"name" doc:"As the audit log shows it"`
	UserID string   `json:"user_id,omitempty" doc:"The user; absent for the machine's owner"`
	Via    string   `json:"via,omitempty" doc:"The session or API token, by ID"`
	Grants []Grant  `json:"grants" nullable:"false" doc:"What they may do; of a token, as far as its user may, too"`
	Scopes []string `json:"scopes,omitempty" doc:"To which parts of the API a token is limited"`
}

// Credentials are what a user signs in with.
type Credentials struct {
	Name     string `json:"name" minLength:"1" maxLength:"64" doc:"The user's name"`
	Password string `json:"password" writeOnly:"true" minLength:"1" maxLength:"256" doc:"The user's password"`
}

// PasswordChange changes one's own password.
type PasswordChange struct {
	Current string `json:"current" writeOnly:"true" minLength:"1" maxLength:"256" doc:"The password as it is"`
	New     string `json:"new" writeOnly:"true" minLength:"10" maxLength:"256" doc:"The password as it is to be"`
}

type (
	identityOutput struct{ Body Identity }
	signIn         struct {
		UserAgent string `header:"User-Agent"`
		Body      Credentials
	}
	signedIn struct {
		SetCookie string `header:"Set-Cookie" doc:"The session"`
		Body      Identity
	}
	signedOut struct {
		SetCookie string `header:"Set-Cookie" doc:"Ends the session in the browser"`
	}
	changePassword struct{ Body PasswordChange }
)

func addSession(s *Server) {
	register(s, "sign-in", s.signIn)
	register(s, "get-session", s.getSession)
	register(s, "sign-out", s.signOut)
	register(s, "change-password", s.changePassword)
}

func viewIdentity(p auth.Principal) Identity {
	out := Identity{Kind: string(p.Kind), Name: p.Name, UserID: p.UserID, Via: p.Via, Scopes: p.Scopes, Grants: []Grant{}}
	for _, g := range p.Grants {
		out.Grants = append(out.Grants, Grant{Role: string(g.Role), ScopeKind: string(g.Scope.Kind), ScopeID: g.Scope.ID})
	}
	return out
}

func (s *Server) signIn(ctx context.Context, in *signIn) (*signedIn, error) {
	x, err := s.signin.SignIn(ctx, in.Body.Name, in.Body.Password, requestOf(ctx).address, in.UserAgent)
	if err != nil {
		return nil, signInProblem(err)
	}
	c := change{kind: "session", id: x.Session.ID, name: x.Principal.Name, after: viewSession(x.Session, "")}
	err = s.do(as(ctx, x.Principal), c, func(ctx context.Context) error { return s.signin.Begin(ctx, &x) })
	if err != nil {
		return nil, signInProblem(err)
	}
	return &signedIn{
		SetCookie: s.cookie(x.Cookie, int(signin.SessionMax.Seconds())).String(), Body: viewIdentity(x.Principal),
	}, nil
}

func (s *Server) getSession(ctx context.Context, _ *struct{}) (*identityOutput, error) {
	return &identityOutput{viewIdentity(principal(ctx))}, nil
}

func (s *Server) signOut(ctx context.Context, _ *struct{}) (*signedOut, error) {
	who := principal(ctx)
	if who.Kind != auth.KindUser {
		return nil, problem(http.StatusConflict, "You are not signed in with a session.", "Revoke an API token to end it.")
	}
	err := s.do(ctx, change{kind: "session", id: who.Via, name: who.Name}, func(ctx context.Context) error {
		return s.store.DeleteSession(ctx, who.Via)
	})
	return &signedOut{SetCookie: s.cookie("", -1).String()}, err
}

func (s *Server) changePassword(ctx context.Context, in *changePassword) (*struct{}, error) {
	who := principal(ctx)
	if who.UserID == "" {
		return nil, problem(http.StatusConflict, "The machine's owner has no password.", "Change that of a user: PATCH /api/v1/users/{id}.")
	}
	u, err := s.store.User(ctx, who.UserID)
	if err != nil {
		return nil, err
	}
	if u.PasswordHash == "" {
		return nil, noPassword(u)
	}
	if err := s.signin.Verify(ctx, u, in.Body.Current, requestOf(ctx).address); errors.Is(err, signin.ErrPassword) {
		return nil, invalid("body.current", "this is not your password")
	} else if err != nil {
		return nil, signInProblem(err)
	}
	if err := signin.CheckPassword(u.Name, in.Body.New); err != nil {
		return nil, invalid("body.new", "%s", err)
	}
	hash, err := s.signin.Hash(ctx, in.Body.New)
	if err != nil {
		return nil, err
	}
	c := change{kind: "user", id: u.ID, name: u.Name, before: viewUser(u), after: userChange{viewUser(u), true}}
	return nil, s.do(ctx, c, func(ctx context.Context) error { return s.store.SetPassword(ctx, u.ID, u.PasswordHash, hash, who.Via) })
}
