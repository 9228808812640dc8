package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// PoolSpec is what an operator declares of a pool.
type PoolSpec struct {
	Name           string            `json:"name" minLength:"1" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$" doc:"Unique; lower-case letters, digits and hyphens"`
	InstallationID string            `json:"installation_id" maxLength:"64" doc:"The installation whose jobs it takes"`
	Repository     string            `json:"repository" required:"false" maxLength:"200" pattern:"^([A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+)?$" doc:"owner/name registers at that repository; empty at the organisation"`
	RunnerGroupID  int64             `json:"runner_group_id" required:"false" minimum:"0" doc:"GitHub's runner group; 0 is the default group"`
	Labels         []string          `json:"labels" required:"false" maxItems:"50" doc:"Labels that its runners offer besides those that GitHub implies"`
	Backend        string            `json:"backend" enum:"podman,docker,process" default:"podman" doc:"What runs its runners"`
	Image          string            `json:"image" required:"false" maxLength:"500" doc:"The runners' image; empty takes the catalogue's for the platform"`
	PullPolicy     string            `json:"pull_policy" enum:"missing,always,never" default:"missing" doc:"When a host fetches the image"`
	OS             string            `json:"os" required:"false" enum:",linux,windows,darwin" doc:"Operating system; empty constrains nothing"`
	Arch           string            `json:"arch" required:"false" enum:",amd64,arm64,arm" doc:"Architecture; empty constrains nothing"`
	HostSelector   map[string]string `json:"host_selector" required:"false" doc:"Labels that a host must have"`
	Min            int               `json:"min" required:"false" minimum:"0" maximum:"10000" doc:"Runners kept ready"`
	Max            int               `json:"max" minimum:"0" maximum:"10000" default:"4" doc:"Runners at most"`
	Priority       int               `json:"priority" required:"false" minimum:"-1000" maximum:"1000" doc:"Higher goes first"`
	Enabled        bool              `json:"enabled" default:"true" doc:"A disabled pool takes no job and drains its runners"`
	Ephemeral      bool              `json:"ephemeral" default:"true" doc:"One job for each runner"`
	IdleTimeout    Duration          `json:"idle_timeout" default:"5m" doc:"How long a runner above min stays idle"`
	ScaleUpDelay   Duration          `json:"scale_up_delay" default:"0s" doc:"How long a job waits before a runner is made for it"`
	MaxLifetime    Duration          `json:"max_lifetime" default:"0s" doc:"How old an idle runner becomes; 0s is no limit"`
	RepoLimit      int               `json:"repository_limit" required:"false" minimum:"0" maximum:"10000" doc:"Runners one repository holds at once; 0 is no limit"`
	CPUs           float64           `json:"cpus" required:"false" minimum:"0" maximum:"1024" doc:"CPUs of one runner; 0 is a slot's share"`
	MemoryMB       int64             `json:"memory_mb" required:"false" minimum:"0" maximum:"16777216" doc:"MiB of memory of one runner; 0 is a slot's share"`
	PidsLimit      int64             `json:"pids_limit" required:"false" minimum:"0" maximum:"4194304" doc:"Processes of one runner; 0 is the backend's default"`
	Network        string            `json:"network" required:"false" maxLength:"200" doc:"The container network; empty is the backend's default"`
	ReadOnly       bool              `json:"read_only" required:"false" doc:"The image's files cannot be written"`
	Daemon         string            `json:"daemon" required:"false" enum:",docker,podman" doc:"A container daemon of the runner's own, beside it"`
	DaemonImage    string            `json:"daemon_image" required:"false" maxLength:"500" doc:"The daemon's image; empty takes the catalogue's"`
	Env            map[string]string `json:"env" required:"false" doc:"Environment of its runners. Shown to whoever sees the pool: no place for secrets"`
}

// PoolPatch changes parts of a pool.
type PoolPatch struct {
	Name          *string            `json:"name,omitempty" minLength:"1" maxLength:"63" pattern:"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"`
	RunnerGroupID *int64             `json:"runner_group_id,omitempty" minimum:"0"`
	Labels        *[]string          `json:"labels,omitempty" maxItems:"50"`
	Backend       *string            `json:"backend,omitempty" enum:"podman,docker,process"`
	Image         *string            `json:"image,omitempty" maxLength:"500"`
	PullPolicy    *string            `json:"pull_policy,omitempty" enum:"missing,always,never"`
	OS            *string            `json:"os,omitempty" enum:",linux,windows,darwin"`
	Arch          *string            `json:"arch,omitempty" enum:",amd64,arm64,arm"`
	HostSelector  *map[string]string `json:"host_selector,omitempty"`
	Min           *int               `json:"min,omitempty" minimum:"0" maximum:"10000"`
	Max           *int               `json:"max,omitempty" minimum:"0" maximum:"10000"`
	Priority      *int               `json:"priority,omitempty" minimum:"-1000" maximum:"1000"`
	Enabled       *bool              `json:"enabled,omitempty"`
	Ephemeral     *bool              `json:"ephemeral,omitempty"`
	IdleTimeout   *Duration          `json:"idle_timeout,omitempty"`
	ScaleUpDelay  *Duration          `json:"scale_up_delay,omitempty"`
	MaxLifetime   *Duration          `json:"max_lifetime,omitempty"`
	RepoLimit     *int               `json:"repository_limit,omitempty" minimum:"0" maximum:"10000"`
	CPUs          *float64           `json:"cpus,omitempty" minimum:"0" maximum:"1024"`
	MemoryMB      *int64             `json:"memory_mb,omitempty" minimum:"0" maximum:"16777216"`
	PidsLimit     *int64             `json:"pids_limit,omitempty" minimum:"0" maximum:"4194304"`
	Network       *string            `json:"network,omitempty" maxLength:"200"`
	ReadOnly      *bool              `json:"read_only,omitempty"`
	Daemon        *string            `json:"daemon,omitempty" enum:",docker,podman"`
	DaemonImage   *string            `json:"daemon_image,omitempty" maxLength:"500"`
	Env           *map[string]string `json:"env,omitempty"`
}

// Pool is a pool as the API shows it.
type Pool struct {
	ID string `json:"id" doc:"pool_…"`
	PoolSpec
	Paused      bool       `json:"paused" doc:"It starts no runner until it is resumed"`
	PausedAt    *time.Time `json:"paused_at,omitempty"`
	PauseReason string     `json:"pause_reason,omitempty"`
	CreatedAt   time.Time  `json:"created_at"`
	UpdatedAt   time.Time  `json:"updated_at"`
}

// TransformSchema implements huma.SchemaTransformer: what has a default may be left out.
func (PoolSpec) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return defaultsOptional(s)
}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (Pool) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s, "paused_at", "pause_reason")
}

func viewPool(p store.Pool) Pool {
	return Pool{
		ID: p.ID,
		PoolSpec: PoolSpec{
			Name: p.Name, InstallationID: p.InstallationID, Repository: p.Repository, RunnerGroupID: p.RunnerGroupID,
			Labels: orEmpty(p.Labels), Backend: p.Backend, Image: p.Image, PullPolicy: p.PullPolicy, OS: p.OS, Arch: p.Arch,
			HostSelector: orEmptyMap(p.HostSelector), Min: p.Min, Max: p.Max, Priority: p.Priority, Enabled: p.Enabled, Ephemeral: p.Ephemeral,
			IdleTimeout: duration(p.IdleTimeout), ScaleUpDelay: duration(p.ScaleUpDelay), MaxLifetime: duration(p.MaxLifetime),
			RepoLimit: p.RepoLimit, CPUs: p.CPUs, MemoryMB: p.MemoryMB, PidsLimit: p.PidsLimit, Network: p.Network, ReadOnly: p.ReadOnly,
			Daemon: p.Daemon, DaemonImage: p.DaemonImage, Env: orEmptyMap(p.Env),
		},
		Paused: !p.PausedAt.IsZero(), PausedAt: optional(p.PausedAt), PauseReason: p.PauseReason, CreatedAt: p.CreatedAt, UpdatedAt: p.UpdatedAt,
	}
}

// into writes what is declared onto a row.
func (x PoolSpec) into(p store.Pool) store.Pool {
	p.Name, p.InstallationID, p.Repository, p.RunnerGroupID = x.Name, x.InstallationID, x.Repository, x.RunnerGroupID
	p.Labels, p.Backend, p.Image, p.PullPolicy, p.OS, p.Arch = x.Labels, x.Backend, x.Image, x.PullPolicy, x.OS, x.Arch
	p.HostSelector, p.Min, p.Max, p.Priority, p.Enabled, p.Ephemeral = x.HostSelector, x.Min, x.Max, x.Priority, x.Enabled, x.Ephemeral
	p.IdleTimeout, p.ScaleUpDelay, p.MaxLifetime = x.IdleTimeout.Value(), x.ScaleUpDelay.Value(), x.MaxLifetime.Value()
	p.RepoLimit, p.CPUs, p.MemoryMB, p.PidsLimit, p.Network, p.ReadOnly = x.RepoLimit, x.CPUs, x.MemoryMB, x.PidsLimit, x.Network, x.ReadOnly
	p.Daemon, p.DaemonImage, p.Env = x.Daemon, x.DaemonImage, x.Env
	return p
}

type (
	// PoolPath names one in a path; huma looks only into exported types.
	PoolPath struct {
		ID string `path:"id" maxLength:"64" doc:"The pool's ID"`
	}
	poolOutput  struct{ Body Pool }
	poolsOutput struct{ Body Page[Pool] }
	listPools   struct {
		PageParams
		Sort           string `query:"sort" enum:"name,-name,created_at,-created_at" default:"name"`
		InstallationID string `query:"installation_id" maxLength:"64" doc:"Only pools of this installation"`
		Name           string `query:"name" maxLength:"63" doc:"Only the pool of this name"`
	}
	createPool struct{ Body PoolSpec }
	updatePool struct {
		PoolPath
		IfMatch string `header:"If-Match" doc:"Change it only while its ETag is this"`
		Body    PoolPatch
	}
	deletePool struct {
		PoolPath
		IfMatch string `header:"If-Match" doc:"Delete it only while its ETag is this"`
	}
	pausePool struct {
		PoolPath
		Body struct {
			Reason string `json:"reason" required:"false" maxLength:"500" doc:"Why, for those who wonder"`
		}
	}
)

func addPools(s *Server) {
	register(s, "list-pools", s.listPools)
	register(s, "create-pool", s.createPool)
	register(s, "get-pool", s.getPool)
	register(s, "update-pool", s.updatePool)
	register(s, "delete-pool", s.deletePool)
	register(s, "pause-pool", s.pausePool)
	register(s, "resume-pool", s.resumePool)
}

func (s *Server) listPools(ctx context.Context, in *listPools) (*poolsOutput, error) {
	rows, err := s.store.Pools(ctx)
	if err != nil {
		return nil, err
	}
	var all []Pool
	for _, p := range rows {
		if sees(ctx, poolTarget(p)) && (in.InstallationID == "" || p.InstallationID == in.InstallationID) && (in.Name == "" || p.Name == in.Name) {
			all = append(all, viewPool(p))
		}
	}
	page, err := paginate(all, in.PageParams, in.Sort, keys[Pool]{
		"name": func(p Pool) string { return p.Name }, "created_at": func(p Pool) string { return timeKey(p.CreatedAt) },
	}, func(p Pool) string { return p.ID })
	return &poolsOutput{page}, err
}

func (s *Server) getPool(ctx context.Context, in *PoolPath) (*poolOutput, error) {
	p, err := s.store.Pool(ctx, in.ID)
	return &poolOutput{viewPool(p)}, err
}

func (s *Server) createPool(ctx context.Context, in *createPool) (*poolOutput, error) {
	if err := s.permit(ctx, storeTarget(in.Body.InstallationID)); err != nil {
		return nil, err
	}
	p := in.Body.into(store.Pool{ID: store.NewID(store.IDPool)})
	if err := s.checkPool(ctx, p); err != nil {
		return nil, err
	}
	now := viewPool(p)
	err := s.do(ctx, change{kind: "pool", id: p.ID, name: p.Name, after: now.PoolSpec}, func(ctx context.Context) (err error) {
		p, err = s.store.CreatePool(ctx, p)
		return err
	})
	if err != nil {
		return nil, poolConflict(err, in.Body.Name) // p is nothing then
	}
	s.fleet.Look()
	return &poolOutput{viewPool(p)}, nil
}

func (s *Server) updatePool(ctx context.Context, in *updatePool) (*poolOutput, error) {
	return s.changePool(ctx, in.ID, in.IfMatch, func(p store.Pool) (store.Pool, error) {
		spec, err := merge(viewPool(p).PoolSpec, in.Body)
		return spec.into(p), err
	})
}

// changePool reads a pool, changes it, and writes it back.
func (s *Server) changePool(ctx context.Context, id, match string, edit func(store.Pool) (store.Pool, error)) (*poolOutput, error) {
	p, err := s.store.Pool(ctx, id)
	if err != nil {
		return nil, err
	}
	before := viewPool(p)
	if err := ifMatch(match, before); err != nil {
		return nil, err
	}
	if p, err = edit(p); err != nil {
		return nil, err
	}
	if err := s.checkPool(ctx, p); err != nil {
		return nil, err
	}
	err = s.do(ctx, change{kind: "pool", id: p.ID, name: p.Name, before: before, after: viewPool(p)}, func(ctx context.Context) error {
		return s.store.UpdatePool(ctx, p)
	})
	if err != nil {
		return nil, poolConflict(err, p.Name)
	}
	s.fleet.Look()
	p, err = s.store.Pool(ctx, id)
	return &poolOutput{viewPool(p)}, err
}

func (s *Server) deletePool(ctx context.Context, in *deletePool) (*struct{}, error) {
	p, err := s.store.Pool(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	before := viewPool(p)
	if err := ifMatch(in.IfMatch, before); err != nil {
		return nil, err
	}
	err = s.do(ctx, change{kind: "pool", id: p.ID, name: p.Name, before: before}, func(ctx context.Context) error {
		return s.store.DeletePool(ctx, in.ID)
	})
	if err == nil {
		s.fleet.Look()
	}
	return nil, err
}

func (s *Server) pausePool(ctx context.Context, in *pausePool) (*poolOutput, error) {
	return s.changePool(ctx, in.ID, "", func(p store.Pool) (store.Pool, error) {
		if p.PausedAt.IsZero() {
			p.PausedAt = s.now()
		}
		p.PauseReason = in.Body.Reason
		return p, nil
	})
}

func (s *Server) resumePool(ctx context.Context, in *PoolPath) (*struct{}, error) {
	_, err := s.changePool(ctx, in.ID, "", func(p store.Pool) (store.Pool, error) {
		p.PausedAt, p.PauseReason = time.Time{}, ""
		return p, nil
	})
	return nil, err
}

// checkPool refuses what a schema cannot: fields that do not go together.
func (s *Server) checkPool(ctx context.Context, p store.Pool) error {
	switch {
	case p.Min > p.Max:
		return invalid("body.min", "min is %d and max is %d: a pool cannot keep more runners ready than it may have", p.Min, p.Max)
	case p.Daemon != "" && p.Backend == "process":
		return invalid("body.daemon", "a process runner has no container daemon beside it: choose the backend podman or docker")
	case p.Image != "" && p.Backend == "process":
		return invalid("body.image", "a process runner has no image: choose the backend podman or docker, or leave image empty")
	case p.Daemon == "" && p.DaemonImage != "":
		return invalid("body.daemon_image", "daemon_image is for pools with a daemon: set daemon, too")
	}
	for i, l := range p.Labels {
		if l == "" || len(l) > 256 {
			return invalid(fmt.Sprintf("body.labels[%d]", i), "a label has 1 to 256 characters")
		}
	}
	for k := range p.Env {
		if err := checkEnvName(k); err != nil {
			return invalid("body.env", "%s", err)
		}
	}
	if _, err := s.store.Installation(ctx, p.InstallationID); errors.Is(err, store.ErrNotFound) {
		return invalid("body.installation_id", "there is no installation %.64s", p.InstallationID)
	} else if err != nil {
		return err
	}
	return nil
}

func poolConflict(err error, name string) error {
	if errors.Is(err, store.ErrConflict) {
		return problem(http.StatusConflict, fmt.Sprintf("There is another pool with the name %s.", name), "Choose another name.")
	}
	return err
}
