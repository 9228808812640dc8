package api

import (
	"context"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Session is one sign-in of a user.
type Session struct {
	ID         string    `json:"id" doc:"ses_…"`
	Address    string    `json:"address" doc:"Where it began"`
	Agent      string    `json:"agent" doc:"What the browser calls itself"`
	CreatedAt  time.Time `json:"created_at"`
	LastSeenAt time.Time `json:"last_seen_at" doc:"To the minute"`
	ExpiresAt  time.Time `json:"expires_at" doc:"Unless it is used until then"`
	Current    bool      `json:"current" doc:"It is the one that asks"`
}

func viewSession(x store.Session, current string) Session {
	return Session{
		ID: x.ID, Address: x.Address, Agent: x.Agent, CreatedAt: x.CreatedAt, LastSeenAt: x.LastSeenAt, ExpiresAt: x.ExpiresAt, Current: x.ID == current,
	}
}

type (
	sessionsOutput struct{ Body Page[Session] }
	listSessions   struct {
		UserPath
		PageParams
		Sort string `query:"sort" enum:"created_at,-created_at" default:"-created_at"`
	}
)

func addSessions(s *Server) {
	register(s, "list-sessions", s.listSessions)
	register(s, "end-sessions", s.endSessions)
}

// ownOrWithin returns the user whose sessions are meant: the caller, or one within an admin's reach.
func (s *Server) ownOrWithin(ctx context.Context, id string) (store.User, reach, error) {
	if who := principal(ctx); who.UserID == id {
		u, err := s.store.User(ctx, id)
		return u, reach{who: who}, err
	}
	return s.userWithin(ctx, id)
}

func (s *Server) listSessions(ctx context.Context, in *listSessions) (*sessionsOutput, error) {
	u, _, err := s.ownOrWithin(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	rows, err := s.store.Sessions(ctx, u.ID)
	if err != nil {
		return nil, err
	}
	var all []Session
	for _, x := range rows {
		if s.now().Before(x.ExpiresAt) {
			all = append(all, viewSession(x, principal(ctx).Via))
		}
	}
	page, err := paginate(all, in.PageParams, in.Sort, keys[Session]{
		"created_at": func(x Session) string { return timeKey(x.CreatedAt) },
	}, func(x Session) string { return x.ID })
	return &sessionsOutput{page}, err
}

func (s *Server) endSessions(ctx context.Context, in *UserPath) (*struct{}, error) {
	u, r, err := s.ownOrWithin(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if u.ID != r.who.UserID {
		if err := r.manages(u); err != nil {
			return nil, err
		}
	}
	return nil, s.do(ctx, change{kind: "user", id: u.ID, name: u.Name}, func(ctx context.Context) error {
		_, err := s.store.DeleteSessionsOf(ctx, u.ID, "")
		return err
	})
}
