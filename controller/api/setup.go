package api

import (
	"context"
	"errors"
	"math"
	"net/http"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Setup says how far a fleet is set up.
type Setup struct {
	Claimed bool `json:"claimed" doc:"The fleet has its first user: sign in. Otherwise claim it with the setup token"`
}

// Claim makes the first user of a fleet.
type Claim struct {
	Token    string `json:"token" writeOnly:"true" required:"false" maxLength:"200" doc:"The setup token from the controller's data folder; the machine's owner needs none over the local socket"`
	Name     string `json:"name" minLength:"1" maxLength:"64" pattern:"^[a-z0-9]([a-z0-9._@+-]*[a-z0-9])?$" doc:"The first user's name"`
	Password string `json:"password" writeOnly:"true" minLength:"10" maxLength:"256" doc:"Their password"`
}

type (
	setupOutput struct{ Body Setup }
	claimFleet  struct{ Body Claim }
)

func addSetup(s *Server) {
	register(s, "get-setup", s.getSetup)
	register(s, "claim-fleet", s.claimFleet)
}

func (s *Server) getSetup(ctx context.Context, _ *struct{}) (*setupOutput, error) {
	claimed, err := s.store.Claimed(ctx)
	return &setupOutput{Setup{Claimed: claimed}}, err
}

func (s *Server) claimFleet(ctx context.Context, in *claimFleet) (*userOutput, error) {
	if err := signin.CheckPassword(in.Body.Name, in.Body.Password); err != nil {
		return nil, invalid("body.password", "%s", err)
	}
	local := principal(ctx).Kind == auth.KindLocal
	u, err := s.signin.NewOwner(ctx, in.Body.Token, in.Body.Name, in.Body.Password, requestOf(ctx).address, local)
	if err != nil {
		return nil, signInProblem(err)
	}
	u.CreatedAt, u.UpdatedAt = s.now(), s.now()
	by := principal(ctx)
	if !local {
		by = auth.Principal{Kind: auth.KindUser, ID: u.ID, Name: u.Name, UserID: u.ID}
	}
	err = s.do(as(ctx, by), change{kind: "user", id: u.ID, name: u.Name, after: viewUser(u)}, func(ctx context.Context) (err error) {
		u, err = s.signin.Claim(ctx, u)
		return err
	})
	if err != nil {
		return nil, signInProblem(err)
	}
	s.log.Info("the fleet was claimed", "user", u.ID)
	return &userOutput{viewUser(u)}, nil
}

// as is the request of somebody who has proved themselves in the course of it.
func as(ctx context.Context, p auth.Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// signInProblem says what a stranger may know of a failed proof.
func signInProblem(err error) error {
	var many signin.TooManyError
	switch {
	case errors.As(err, &many):
		p := problem(http.StatusTooManyRequests, sentence(many), "Wait as long as Retry-After says.")
		p.retryAfter = int(math.Ceil(many.RetryAfter.Seconds()))
		return p
	case errors.Is(err, signin.ErrPassword):
		return problem(http.StatusUnauthorized, sentence(signin.ErrPassword), "Try again, or ask an admin of the fleet for another password.")
	case errors.Is(err, signin.ErrSetupToken):
		return problem(http.StatusUnauthorized, sentence(signin.ErrSetupToken),
			"Read it on the controller's machine, in its data folder, or claim the fleet there over the local socket.")
	case errors.Is(err, store.ErrClaimed):
		return problem(http.StatusConflict, sentence(store.ErrClaimed), "Sign in, or ask whoever claimed it for a user.")
	}
	return err
}
