package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// HostBackend is one backend of a host, as its agent found it.
type HostBackend struct {
	Name        string `json:"name" doc:"podman, docker or process"`
	Version     string `json:"version"`
	Rootless    bool   `json:"rootless"`
	CPULimit    bool   `json:"cpu_limit" doc:"It has shown that it can limit CPU"`
	MemoryLimit bool   `json:"memory_limit" doc:"It has shown that it can limit memory"`
	Error       string `json:"error" doc:"Why it cannot be used now; empty when it can"`
}

// Host is a host as the API shows it.
type Host struct {
	ID              string            `json:"id" doc:"hst_…"`
	Name            string            `json:"name"`
	Health          string            `json:"health" enum:"healthy,unhealthy,lost,joining" doc:"unhealthy has missed its heartbeats; the runners of a lost one were given up; a joining one has not been heard from since it joined"`
	Embedded        bool              `json:"embedded" doc:"It is the controller's own machine"`
	OS              string            `json:"os"`
	Arch            string            `json:"arch"`
	Distro          string            `json:"distro"`
	AgentVersion    string            `json:"agent_version"`
	CPUs            float64           `json:"cpus"`
	MemoryMB        int64             `json:"memory_mb" doc:"MiB"`
	DiskTotalMB     int64             `json:"disk_total_mb" doc:"MiB; 0 when it was not measured"`
	DiskFreeMB      int64             `json:"disk_free_mb" doc:"MiB"`
	Capacity        int               `json:"capacity" doc:"Runners that it may have at once"`
	UsedSlots       int               `json:"used_slots" doc:"Runners that it has now, and those that are on their way"`
	Labels          map[string]string `json:"labels"`
	Backends        []HostBackend     `json:"backends" nullable:"false"`
	Cordoned        bool              `json:"cordoned" doc:"It gets no new runner"`
	Draining        bool              `json:"draining" doc:"It is cordoned, and its runners leave it"`
	LastHeartbeatAt time.Time         `json:"last_heartbeat_at"`
	LostAt          *time.Time        `json:"lost_at,omitempty"`
	JoinedAt        time.Time         `json:"joined_at"`
}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (Host) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s, "lost_at")
}

func (s *Server) viewHost(h store.Host, used int) Host {
	v := Host{
		ID: h.ID, Name: h.Name, Health: s.fleet.HostHealth(h), Embedded: h.Embedded, OS: h.OS, Arch: h.Arch, Distro: h.Distro, AgentVersion: h.AgentVersion,
		CPUs: h.CPUs, MemoryMB: h.MemoryMB, DiskTotalMB: h.DiskTotalMB, DiskFreeMB: h.DiskFreeMB, Capacity: h.Capacity, UsedSlots: used,
		Labels: orEmptyMap(h.Labels), Backends: []HostBackend{}, Cordoned: h.Cordoned, Draining: h.Draining,
		LastHeartbeatAt: h.LastHeartbeatAt, LostAt: optional(h.LostAt), JoinedAt: h.JoinedAt,
	}
	for _, b := range h.Backends {
		v.Backends = append(v.Backends, HostBackend(b))
	}
	return v
}

type (
	// HostPath names one in a path; huma looks only into exported types.
	HostPath struct {
		ID string `path:"id" maxLength:"64" doc:"The host's ID"`
	}
	hostOutput  struct{ Body Host }
	hostsOutput struct{ Body Page[Host] }
	listHosts   struct {
		PageParams
		Sort   string `query:"sort" enum:"name,-name,joined_at,-joined_at" default:"name"`
		Name   string `query:"name" maxLength:"255" doc:"Only the host of this name"`
		Health string `query:"health" enum:"healthy,unhealthy,lost,joining" doc:"Only hosts that are so"`
	}
)

func addHosts(s *Server) {
	register(s, "list-hosts", s.listHosts)
	register(s, "get-host", s.getHost)
	register(s, "cordon-host", s.cordonHost)
	register(s, "uncordon-host", s.uncordonHost)
	register(s, "drain-host", s.drainHost)
	register(s, "delete-host", s.deleteHost)
}

// usedSlots counts the live runners of one host, or of every host when id is empty.
func (s *Server) usedSlots(ctx context.Context, id string) (map[string]int, error) {
	live, err := s.store.Runners(ctx, store.RunnerFilter{HostID: id, Live: true})
	used := map[string]int{}
	for _, r := range live {
		used[r.HostID]++
	}
	return used, err
}

func (s *Server) listHosts(ctx context.Context, in *listHosts) (*hostsOutput, error) {
	rows, err := s.store.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	used, err := s.usedSlots(ctx, "")
	if err != nil {
		return nil, err
	}
	var all []Host
	for _, h := range rows {
		if v := s.viewHost(h, used[h.ID]); (in.Name == "" || v.Name == in.Name) && (in.Health == "" || v.Health == in.Health) {
			all = append(all, v)
		}
	}
	page, err := paginate(all, in.PageParams, in.Sort, keys[Host]{
		"name": func(h Host) string { return h.Name }, "joined_at": func(h Host) string { return timeKey(h.JoinedAt) },
	}, func(h Host) string { return h.ID })
	return &hostsOutput{page}, err
}

func (s *Server) host(ctx context.Context, id string) (Host, error) {
	h, err := s.store.Host(ctx, id)
	if err != nil {
		return Host{}, err
	}
	used, err := s.usedSlots(ctx, id)
	return s.viewHost(h, used[id]), err
}

func (s *Server) getHost(ctx context.Context, in *HostPath) (*hostOutput, error) {
	h, err := s.host(ctx, in.ID)
	return &hostOutput{h}, err
}

func (s *Server) cordonHost(ctx context.Context, in *HostPath) (*hostOutput, error) {
	return s.changeHost(ctx, in.ID, func(h *Host) { h.Cordoned = true }, func(ctx context.Context, h Host) error {
		if h.Cordoned { // a drain goes on
			return nil
		}
		return s.store.SetHostCordoned(ctx, h.ID, true)
	})
}

func (s *Server) uncordonHost(ctx context.Context, in *HostPath) (*struct{}, error) {
	_, err := s.changeHost(ctx, in.ID, func(h *Host) { h.Cordoned, h.Draining = false, false }, func(ctx context.Context, h Host) error {
		return s.store.SetHostCordoned(ctx, h.ID, false)
	})
	return nil, err
}

func (s *Server) drainHost(ctx context.Context, in *HostPath) (*hostOutput, error) {
	return s.changeHost(ctx, in.ID, func(h *Host) { h.Cordoned, h.Draining = true, true }, func(ctx context.Context, h Host) error {
		return s.store.SetHostDraining(ctx, h.ID, true)
	})
}

// changeHost carries out a change that shows as edit makes it.
func (s *Server) changeHost(ctx context.Context, id string, edit func(*Host), write func(context.Context, Host) error) (*hostOutput, error) {
	before, err := s.host(ctx, id)
	if err != nil {
		return nil, err
	}
	after := before
	edit(&after)
	err = s.do(ctx, change{kind: "host", id: id, name: before.Name, before: before, after: after}, func(ctx context.Context) error {
		return write(ctx, before)
	})
	if err != nil {
		return nil, err
	}
	s.fleet.Look()
	now, err := s.host(ctx, id)
	return &hostOutput{now}, err
}

func (s *Server) deleteHost(ctx context.Context, in *HostPath) (*struct{}, error) {
	before, err := s.host(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if before.UsedSlots > 0 {
		return nil, problem(http.StatusConflict, "Host "+before.Name+" has runners.", "Drain it first, and delete it when it is empty.")
	}
	err = s.do(ctx, change{kind: "host", id: in.ID, name: before.Name, before: before}, func(ctx context.Context) error {
		return s.store.DeleteHost(ctx, in.ID)
	})
	if err == nil {
		s.fleet.Look()
	}
	return nil, err
}
