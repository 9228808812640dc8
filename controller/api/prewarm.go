package api

import (
	"context"
	"net/http"

	"github.com/zoomies-fleet/zoomies/controller/scheduler"
)

// Prewarm says which hosts were asked to fetch a pool's images.
type Prewarm struct {
	PoolID string        `json:"pool_id"`
	Images []string      `json:"images" nullable:"false" doc:"The runners' image, and that of the daemon beside them if there is one"`
	Asked  []PrewarmHost `json:"asked" nullable:"false" doc:"Hosts that can serve the pool, and fetch what they do not have. One that was asked already is not asked twice"`
	Passed []PrewarmHost `json:"passed_over" nullable:"false" doc:"Hosts that cannot serve the pool now"`
}

// PrewarmHost is a host that was asked, or why it was not.
type PrewarmHost struct {
	HostID string `json:"host_id"`
	Host   string `json:"host" doc:"Its name"`
	Why    string `json:"why" doc:"What keeps it from serving the pool; empty when nothing does"`
}

type prewarmOutput struct{ Body Prewarm }

func addPrewarm(s *Server) { register(s, "prewarm-pool", s.prewarmPool) }

func (s *Server) prewarmPool(ctx context.Context, in *PoolPath) (*prewarmOutput, error) {
	p, err := s.store.Pool(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if p.Backend == "process" {
		return nil, problem(http.StatusConflict, "The runners of pool "+p.Name+" are processes and have no image.", "Nothing is to be fetched.")
	}
	var images []string
	var hosts []scheduler.HostVerdict
	err = s.do(ctx, change{kind: "pool", id: p.ID, name: p.Name}, func(ctx context.Context) (err error) {
		images, hosts, err = s.fleet.Prewarm(ctx, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := Prewarm{PoolID: p.ID, Images: orEmpty(images), Asked: []PrewarmHost{}, Passed: []PrewarmHost{}}
	for _, h := range hosts {
		v := PrewarmHost{HostID: h.HostID, Host: h.Name, Why: h.Why}
		if h.Serves {
			out.Asked = append(out.Asked, v)
		} else {
			out.Passed = append(out.Passed, v)
		}
	}
	return &prewarmOutput{out}, nil
}
