package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

// Delivery is a webhook delivery that spoke of a job.
type Delivery struct {
	ID             string    `json:"id" doc:"GitHub's GUID, as its list of deliveries shows it"`
	InstallationID string    `json:"installation_id,omitempty" doc:"The installation it was credited to; absent while none serves its repository"`
	Event          string    `json:"event"`
	Action         string    `json:"action"`
	GitHubJobID    int64     `json:"github_job_id" doc:"GitHub's ID of the job"`
	ReceivedAt     time.Time `json:"received_at"`
	Outcome        string    `json:"outcome" doc:"What came of it: applied, or why not"`
}

// TransformSchema implements huma.SchemaTransformer: an answer has every field.
func (Delivery) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return allRequired(s, "installation_id")
}

type (
	deliveriesOutput struct{ Body Page[Delivery] }
	listDeliveries   struct {
		PageParams
		InstallationID string `query:"installation_id" maxLength:"64" doc:"Only those of this installation"`
		GitHubJobID    int64  `query:"github_job_id" minimum:"0" doc:"Only those that speak of this job"`
	}
)

func addDeliveries(s *Server) { register(s, "list-deliveries", s.listDeliveries) }

func (s *Server) listDeliveries(ctx context.Context, in *listDeliveries) (*deliveriesOutput, error) {
	at, err := in.after()
	if err != nil {
		return nil, err
	}
	rows, err := s.store.Deliveries(ctx, store.DeliveryFilter{InstallationID: in.InstallationID, GitHubJobID: in.GitHubJobID, After: at, Limit: in.Limit + 1})
	if err != nil {
		return nil, err
	}
	return &deliveriesOutput{pageOf(rows, in.Limit, func(d store.Delivery) store.After { return store.After{At: d.ReceivedAt, ID: d.ID} }, viewDelivery)}, nil
}

func viewDelivery(d store.Delivery) Delivery {
	return Delivery{
		ID: d.ID, InstallationID: d.InstallationID, Event: d.Event, Action: d.Action, GitHubJobID: d.GitHubJobID,
		ReceivedAt: d.ReceivedAt, Outcome: d.Outcome,
	}
}
