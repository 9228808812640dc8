package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/auth/signin"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// User is somebody who may sign in.
type User struct {
	ID           string     `json:"id" doc:"usr_…"`
	Name         string     `json:"name"`
	Source       string     `json:"source" doc:"Who vouches for them: local for a password kept here"`
	Disabled     bool       `json:"disabled" doc:"They cannot sign in, and their API tokens do not work"`
	Grants       []Grant    `json:"grants" nullable:"false" doc:"What they may do"`
	CreatedAt    time.Time  `json:"created_at"`
	UpdatedAt    time.Time  `json:"updated_at"`
	LastSignInAt *time.Time `json:"last_sign_in_at,omitempty"`
}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (User) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s, "last_sign_in_at")
}

// UserSpec is a new user.
type UserSpec struct {
	Name     string  `json:"name" minLength:"1" maxLength:"64" pattern:"^[a-z0-9]([a-z0-9._@+-]*[a-z0-9])?$" doc:"Unique; lower-case letters, digits and . _ @ + -"`
	Password string  `json:"password" writeOnly:"true" minLength:"10" maxLength:"256" doc:"Tell them to change it: PUT /api/v1/session/password"`
	Grants   []Grant `json:"grants" required:"false" maxItems:"200" doc:"What they may do; no more than you may"`
}

// UserPatch changes parts of a user.
type UserPatch struct {
	Name     *string  `json:"name,omitempty" minLength:"1" maxLength:"64" pattern:"^[a-z0-9]([a-z0-9._@+-]*[a-z0-9])?$"`
	Password *string  `json:"password,omitempty" writeOnly:"true" minLength:"10" maxLength:"256" doc:"A new password for somebody else; it ends their sessions"`
	Disabled *bool    `json:"disabled,omitempty" doc:"Ends their sessions; their API tokens do not work meanwhile"`
	Grants   *[]Grant `json:"grants,omitempty" maxItems:"200" doc:"Takes the place of all their grants"`
}

func viewUser(u store.User) User {
	return User{
		ID: u.ID, Name: u.Name, Source: u.Source, Disabled: u.Disabled, Grants: viewGrants(u.Grants),
		CreatedAt: u.CreatedAt, UpdatedAt: u.UpdatedAt, LastSignInAt: optional(u.LastSignInAt),
	}
}

// userChange is a user as the audit log shows them after a change.
type userChange struct {
	User
	PasswordSet bool `json:"password_set,omitempty"`
}

type (
	// UserPath names one in a path; huma looks only into exported types.
	UserPath struct {
		ID string `path:"id" maxLength:"64" doc:"The user's ID"`
	}
	userOutput  struct{ Body User }
	usersOutput struct{ Body Page[User] }
	listUsers   struct {
		PageParams
		Sort string `query:"sort" enum:"name,-name,created_at,-created_at" default:"name"`
		Name string `query:"name" maxLength:"64" doc:"Only the user of this name"`
	}
	createUser struct{ Body UserSpec }
	updateUser struct {
		UserPath
		IfMatch string `header:"If-Match" doc:"Change them only while their ETag is this"`
		Body    UserPatch
	}
	deleteUser struct {
		UserPath
		IfMatch string `header:"If-Match" doc:"Delete them only while their ETag is this"`
	}
)

func addUsers(s *Server) {
	register(s, "list-users", s.listUsers)
	register(s, "create-user", s.createUser)
	register(s, "get-user", s.getUser)
	register(s, "update-user", s.updateUser)
	register(s, "delete-user", s.deleteUser)
}

func (s *Server) listUsers(ctx context.Context, in *listUsers) (*usersOutput, error) {
	r, err := s.reach(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := s.store.Users(ctx)
	if err != nil {
		return nil, err
	}
	var all []User
	for _, u := range rows {
		if r.sees(u.Grants) && (in.Name == "" || u.Name == in.Name) {
			all = append(all, viewUser(u))
		}
	}
	page, err := paginate(all, in.PageParams, in.Sort, keys[User]{
		"name": func(u User) string { return u.Name }, "created_at": func(u User) string { return timeKey(u.CreatedAt) },
	}, func(u User) string { return u.ID })
	return &usersOutput{page}, err
}

func (s *Server) getUser(ctx context.Context, in *UserPath) (*userOutput, error) {
	u, _, err := s.userWithin(ctx, in.ID)
	return &userOutput{viewUser(u)}, err
}

func (s *Server) createUser(ctx context.Context, in *createUser) (*userOutput, error) {
	requestOf(ctx).asked = true // about each grant, below
	r, err := s.reach(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.checkUser(in.Body.Grants); err != nil {
		return nil, err
	}
	if err := signin.CheckPassword(in.Body.Name, in.Body.Password); err != nil {
		return nil, invalid("body.password", "%s", err)
	}
	u := store.User{ID: store.NewID(store.IDUser), Name: in.Body.Name, Source: "local", Grants: grantRows(in.Body.Grants), CreatedAt: s.now(), UpdatedAt: s.now()}
	if u.PasswordHash, err = s.signin.Hash(ctx, in.Body.Password); err != nil {
		return nil, err
	}
	err = s.do(ctx, change{kind: "user", id: u.ID, name: u.Name, after: viewUser(u)}, func(ctx context.Context) (err error) {
		u, err = s.store.CreateUser(ctx, u)
		return err
	})
	if err != nil {
		return nil, userConflict(err, u.Name)
	}
	return &userOutput{viewUser(u)}, nil
}

func (s *Server) updateUser(ctx context.Context, in *updateUser) (*userOutput, error) {
	u, r, err := s.userWithin(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	before := viewUser(u)
	if err := ifMatch(in.IfMatch, before); err != nil {
		return nil, err
	}
	if err := r.manages(u); err != nil {
		return nil, err
	}
	set, err := s.editUser(ctx, r, &u, in.Body)
	if err != nil {
		return nil, err
	}
	c := change{kind: "user", id: u.ID, name: u.Name, before: before, after: userChange{viewUser(u), set}}
	if err := s.do(ctx, c, func(ctx context.Context) error { return s.store.UpdateUser(ctx, u) }); err != nil {
		return nil, userConflict(err, u.Name)
	}
	u, err = s.store.User(ctx, in.ID)
	return &userOutput{viewUser(u)}, err
}

// editUser writes a patch onto a user, and says whether it holds a password.
func (s *Server) editUser(ctx context.Context, r reach, u *store.User, p UserPatch) (bool, error) {
	if p.Grants != nil {
		if err := r.checkUser(*p.Grants); err != nil {
			return false, err
		}
		u.Grants = grantRows(*p.Grants)
	}
	if p.Name != nil {
		u.Name = *p.Name
	}
	if p.Disabled != nil {
		u.Disabled = *p.Disabled
	}
	if p.Password == nil {
		return false, nil
	}
	switch err := signin.CheckPassword(u.Name, *p.Password); {
	case u.Source != "local":
		return false, noPassword(*u)
	case u.ID == r.who.UserID:
		return false, invalid("body.password", "your own password is changed with PUT /api/v1/session/password, which asks for the old one")
	case err != nil:
		return false, invalid("body.password", "%s", err)
	}
	hash, err := s.signin.Hash(ctx, *p.Password)
	u.PasswordHash = hash
	return true, err
}

func (s *Server) deleteUser(ctx context.Context, in *deleteUser) (*struct{}, error) {
	u, r, err := s.userWithin(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	before := viewUser(u)
	if err := ifMatch(in.IfMatch, before); err != nil {
		return nil, err
	}
	if err := r.manages(u); err != nil {
		return nil, err
	}
	return nil, s.do(ctx, change{kind: "user", id: u.ID, name: u.Name, before: before}, func(ctx context.Context) error {
		return s.store.DeleteUser(ctx, u.ID)
	})
}

func noPassword(u store.User) error {
	return problem(http.StatusConflict, fmt.Sprintf("%s has no password here: %s vouches for them.", u.Name, u.Source), "Change it there.")
}

func userConflict(err error, name string) error {
	if errors.Is(err, store.ErrConflict) && store.NameTaken(err) {
		return problem(http.StatusConflict, fmt.Sprintf("There is another user with the name %s.", name), "Choose another name.")
	}
	return err
}
