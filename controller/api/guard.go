package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

type (
	principalKey struct{}
	requestKey   struct{}
)

// principal is who makes the request.
func principal(ctx context.Context) auth.Principal {
	p, _ := ctx.Value(principalKey{}).(auth.Principal)
	return p
}

// request is what is known of a request besides who makes it.
type request struct {
	id      string
	address string // of the peer
	guard   auth.Guard
	asked   bool // the handler has asked about what the body names
	audit   *store.Audited
	claim   *store.Claim
}

func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	if r == nil {
		return &request{}
	}
	return r
}

// guard admits a request to the handler of its operation, or refuses it.
func (s *Server) guard(hctx huma.Context, next func(huma.Context)) {
	g := mustFind(hctx.Operation().OperationID)
	ctx, p := s.admit(hctx.Context(), g, hctx.Param)
	if p != nil {
		s.writeHumaProblem(hctx, p)
		return
	}
	next(huma.WithContext(hctx, ctx))
}

// admit asks whether the caller may make the request.
func (s *Server) admit(ctx context.Context, g auth.Guard, param func(string) string) (context.Context, *Problem) {
	requestOf(ctx).guard = g
	who := principal(ctx)
	switch g.Access {
	case auth.Open, auth.Proven:
		return ctx, nil
	case auth.LocalOnly:
		if who.Kind != auth.KindLocal {
			return ctx, forbidden(g, who)
		}
		return ctx, nil
	default:
	}
	if !who.SignedIn() {
		return ctx, problem(http.StatusUnauthorized, "You have not signed in.", "Sign in, or send an API token: Authorization: Bearer zoo_…")
	}
	if !who.InScope(g.Area, g.Writes()) {
		return ctx, forbidden(g, who)
	}
	if g.Access == auth.AnyUser {
		return ctx, nil
	}
	return ctx, s.admitRole(ctx, g, who, param)
}

func (s *Server) admitRole(ctx context.Context, g auth.Guard, who auth.Principal, param func(string) string) *Problem {
	var t auth.Target
	switch g.Object {
	case auth.Listed, auth.InBody:
		if !who.CanSomewhere(g.Role, g.Area, g.Writes()) {
			return forbidden(g, who)
		}
		return nil
	case auth.TheFleet:
	default:
		var err error
		if t, err = s.target(ctx, g.Object, param("id")); err != nil {
			if errors.Is(err, store.ErrNotFound) && who.CanSomewhere(auth.Viewer, g.Area, false) {
				return notFound(string(g.Object), param("id"))
			} else if errors.Is(err, store.ErrNotFound) {
				return forbidden(g, who)
			}
			return s.fail(ctx, g, err)
		}
		// What the caller may not even see is not there for them.
		if !who.Can(auth.Viewer, g.Area, false, t) && who.CanSomewhere(auth.Viewer, g.Area, false) {
			return notFound(string(g.Object), param("id"))
		}
	}
	if !who.Can(g.Role, g.Area, g.Writes(), t) {
		return forbidden(g, who)
	}
	return nil
}

// target says what an object in a path belongs to.
func (s *Server) target(ctx context.Context, kind auth.Object, id string) (auth.Target, error) {
	switch kind {
	case auth.AnInstallation:
		in, err := s.store.Installation(ctx, id)
		return auth.Target{Installation: in.ID}, err
	case auth.APool:
		p, err := s.store.Pool(ctx, id)
		return poolTarget(p), err
	case auth.ARunner:
		r, err := s.store.Runner(ctx, id)
		return auth.Target{Installation: r.InstallationID, Pool: r.PoolID}, err
	case auth.AJob:
		j, err := s.store.Job(ctx, id)
		if err != nil {
			return auth.Target{}, err
		}
		return s.jobTarget(ctx, j)
	default:
		return auth.Target{}, errors.New("no such kind of object: " + string(kind))
	}
}

func poolTarget(p store.Pool) auth.Target {
	return auth.Target{Installation: p.InstallationID, Pool: p.ID}
}

// jobTarget is the pool whose runner has the job, or else its installation alone.
func (s *Server) jobTarget(ctx context.Context, j store.Job) (auth.Target, error) {
	t := auth.Target{Installation: j.InstallationID}
	if j.RunnerID == "" {
		return t, nil
	}
	r, err := s.store.Runner(ctx, j.RunnerID)
	if errors.Is(err, store.ErrNotFound) { // its row is older than the fleet remembers
		return t, nil
	}
	t.Pool = r.PoolID
	return t, err
}

// permit asks about what the body of a request names.
func (s *Server) permit(ctx context.Context, t auth.Target) error {
	r := requestOf(ctx)
	r.asked = true
	if who := principal(ctx); !who.Can(r.guard.Role, r.guard.Area, r.guard.Writes(), t) {
		return forbidden(r.guard, who)
	}
	return nil
}

// sees says whether the caller may see what belongs to t, when a list is made.
func sees(ctx context.Context, t auth.Target) bool {
	g := requestOf(ctx).guard
	return principal(ctx).Can(g.Role, g.Area, g.Writes(), t)
}
