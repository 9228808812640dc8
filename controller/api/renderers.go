package api

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/events"
)

// renderer is how a kind of object is shown to those who follow events: by the code of its GET route, to those who may call that.
type renderer struct {
	kind  events.Kind
	name  string // the events are <name>.updated and <name>.deleted
	guard string // the operation that shows one
	load  func(ctx context.Context, id string) (view any, t auth.Target, err error)
	// targets are those of all that can be deleted: once something is gone, nothing else says whose it was. nil for what is the fleet's,
	// and for what is only forgotten with age, which nobody is told.
	targets func(ctx context.Context) (map[string]auth.Target, error)
}

// renderers is the table of what is followed. An event whose kind has no row is not told.
func (s *Server) renderers() []renderer {
	return []renderer{
		{events.JobChanged, "job", "get-job", s.loadJob, nil},
		{events.RunnerChanged, "runner", "get-runner", s.loadRunner, nil},
		{events.PoolChanged, "pool", "get-pool", s.loadPool, s.poolTargets},
		{events.HostChanged, "host", "get-host", s.loadHost, nil},
		{events.InstallationChanged, "installation", "get-installation", s.loadInstallation, s.installationTargets},
	}
}

// objectKinds are the events by what the audit log calls an object: every change that goes through do is announced.
var objectKinds = map[string]events.Kind{
	"pool": events.PoolChanged, "installation": events.InstallationChanged, "host": events.HostChanged,
	"runner": events.RunnerChanged, "job": events.JobChanged, "problem": events.ProblemsChanged,
}

// announce tells those who follow events of a change that was carried out.
func (s *Server) announce(kind, id string) {
	k, ok := objectKinds[kind]
	if !ok {
		return
	}
	if k == events.ProblemsChanged {
		id = "" // it is about the list
	}
	s.fleet.Events().Publish(k, id)
}

func (s *Server) loadJob(ctx context.Context, id string) (any, auth.Target, error) {
	j, err := s.store.Job(ctx, id)
	if err != nil {
		return nil, auth.Target{}, err
	}
	t, err := s.jobTarget(ctx, j)
	return viewJob(j), t, err
}

func (s *Server) loadRunner(ctx context.Context, id string) (any, auth.Target, error) {
	r, err := s.store.Runner(ctx, id)
	return viewRunner(r), auth.Target{Installation: r.InstallationID, Pool: r.PoolID}, err
}

func (s *Server) loadHost(ctx context.Context, id string) (any, auth.Target, error) {
	h, err := s.host(ctx, id)
	return h, auth.Target{}, err
}

func (s *Server) loadInstallation(ctx context.Context, id string) (any, auth.Target, error) {
	in, err := s.store.Installation(ctx, id)
	return s.viewInstallation(in), storeTarget(in.ID), err
}

func (s *Server) installationTargets(ctx context.Context) (map[string]auth.Target, error) {
	rows, err := s.store.Installations(ctx)
	out := map[string]auth.Target{}
	for _, in := range rows {
		out[in.ID] = storeTarget(in.ID)
	}
	return out, err
}

func (s *Server) loadPool(ctx context.Context, id string) (any, auth.Target, error) {
	p, err := s.store.Pool(ctx, id)
	return viewPool(p), poolTarget(p), err
}

func (s *Server) poolTargets(ctx context.Context) (map[string]auth.Target, error) {
	rows, err := s.store.Pools(ctx)
	out := map[string]auth.Target{}
	for _, p := range rows {
		out[p.ID] = poolTarget(p)
	}
	return out, err
}

// bodyOf is an answer's body, as the GET route writes it, without the line's end.
func bodyOf(view any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(view)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
