package api

import (
	"context"
	"errors"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// maxJoinTTL bounds how long a join token may lie around.
const maxJoinTTL = 24 * time.Hour

// JoinToken admits one host once. The token itself is shown once, when it is made.
type JoinToken struct {
	ID        string     `json:"id" doc:"tok_…"`
	HostName  string     `json:"host_name" doc:"The host that it is for"`
	State     string     `json:"state" enum:"open,used,expired"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt time.Time  `json:"expires_at"`
	UsedAt    *time.Time `json:"used_at,omitempty"`
	UsedBy    string     `json:"used_by,omitempty" doc:"The host that joined with it, by ID"`
}

// JoinTokenSpec is a new join token.
type JoinTokenSpec struct {
	HostName string   `json:"host_name" minLength:"1" maxLength:"253" pattern:"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$" doc:"The host that will join. One that has the name already gives it up to it"`
	TTL      Duration `json:"ttl" default:"1h" doc:"How long it may lie around before it is used, a day at most"`
}

// TransformSchema implements huma.SchemaTransformer: what has a default may be left out.
func (JoinTokenSpec) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return defaultsOptional(s)
}

// CreatedJoinToken is a join token with its secret.
type CreatedJoinToken struct {
	JoinToken
	Token string `json:"token" doc:"Give it to zoomies agent on the host; it is shown this once"`
	// Where and how the host finds the controller.
	Controller string `json:"controller,omitempty" doc:"The controller's address, for --controller, where it is known"`
	CAPin      string `json:"ca_pin,omitempty" doc:"The pin of the controller's own authority, for --ca-pin, where it has one"`
}

func (s *Server) viewJoinToken(t store.JoinToken) JoinToken {
	v := JoinToken{
		ID: t.ID, HostName: t.HostName, State: "open", CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, UsedAt: optional(t.UsedAt), UsedBy: t.UsedBy,
	}
	switch {
	case !t.UsedAt.IsZero():
		v.State = "used"
	case !s.now().Before(t.ExpiresAt):
		v.State = "expired"
	}
	return v
}

type (
	createdJoinTokenOutput struct{ Body CreatedJoinToken }
	joinTokensOutput       struct{ Body Page[JoinToken] }
	listJoinTokens         struct {
		PageParams
		Sort  string `query:"sort" enum:"created_at,-created_at,host_name,-host_name" default:"-created_at"`
		State string `query:"state" enum:"open,used,expired" doc:"Only tokens in this state"`
	}
	createJoinToken struct{ Body JoinTokenSpec }
)

func addJoinTokens(s *Server) {
	register(s, "list-join-tokens", s.listJoinTokens)
	register(s, "create-join-token", s.createJoinToken)
	register(s, "delete-join-token", s.deleteJoinToken)
}

func (s *Server) listJoinTokens(ctx context.Context, in *listJoinTokens) (*joinTokensOutput, error) {
	rows, err := s.store.JoinTokens(ctx)
	if err != nil {
		return nil, err
	}
	var all []JoinToken
	for _, t := range rows {
		if v := s.viewJoinToken(t); in.State == "" || in.State == v.State {
			all = append(all, v)
		}
	}
	page, err := paginate(all, in.PageParams, in.Sort, keys[JoinToken]{
		"created_at": func(t JoinToken) string { return timeKey(t.CreatedAt) }, "host_name": func(t JoinToken) string { return t.HostName },
	}, func(t JoinToken) string { return t.ID })
	return &joinTokensOutput{page}, err
}

func (s *Server) createJoinToken(ctx context.Context, in *createJoinToken) (*createdJoinTokenOutput, error) {
	ttl := in.Body.TTL.Value()
	if ttl <= 0 || ttl > maxJoinTTL {
		return nil, invalid("body.ttl", "a join token works for a day at most, and for longer than no time")
	}
	secret := auth.NewToken(auth.PrefixJoin)
	t := store.JoinToken{
		ID: store.NewID(store.IDToken), Hash: auth.HashToken(secret), HostName: in.Body.HostName, CreatedAt: s.now(), ExpiresAt: s.now().Add(ttl),
	}
	err := s.do(ctx, change{kind: "join-token", id: t.ID, name: t.HostName, after: s.viewJoinToken(t)}, func(ctx context.Context) (err error) {
		t, err = s.store.CreateJoinToken(ctx, t)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &createdJoinTokenOutput{CreatedJoinToken{s.viewJoinToken(t), secret, s.agentURL, s.caPin}}, nil
}

func (s *Server) deleteJoinToken(ctx context.Context, in *TokenPath) (*struct{}, error) {
	t, err := s.store.JoinToken(ctx, in.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && t.Embedded {
		return nil, notFound("join token", in.ID)
	} else if err != nil {
		return nil, err
	}
	return nil, s.do(ctx, change{kind: "join-token", id: t.ID, name: t.HostName, before: s.viewJoinToken(t)}, func(ctx context.Context) error {
		return s.store.DeleteJoinToken(ctx, t.ID)
	})
}
