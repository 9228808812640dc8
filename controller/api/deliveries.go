package api

import (
	"context"
	"strconv"
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

// newestFirst is how deliveries are sorted, for their cursors.
const newestFirst = "-received_at"

func (s *Server) listDeliveries(ctx context.Context, in *listDeliveries) (*deliveriesOutput, error) {
	at, err := parseCursor(in.Cursor, newestFirst)
	if err != nil {
		return nil, err
	}
	f := store.DeliveryFilter{InstallationID: in.InstallationID, GitHubJobID: in.GitHubJobID, BeforeID: at.ID, Limit: in.Limit + 1}
	if at.ID != "" {
		micros, err := strconv.ParseInt(at.Key, 10, 64)
		if err != nil {
			return nil, invalid("query.cursor", "the cursor is not one of this list's")
		}
		f.Before = time.UnixMicro(micros)
	}
	rows, err := s.store.Deliveries(ctx, f)
	if err != nil {
		return nil, err
	}
	page := Page[Delivery]{Items: []Delivery{}}
	if len(rows) > in.Limit {
		rows = rows[:in.Limit]
		last := rows[len(rows)-1]
		page.NextCursor = cursor{Sort: newestFirst, Key: strconv.FormatInt(last.ReceivedAt.UnixMicro(), 10), ID: last.ID}.String()
	}
	for _, d := range rows {
		page.Items = append(page.Items, Delivery{
			ID: d.ID, InstallationID: d.InstallationID, Event: d.Event, Action: d.Action, GitHubJobID: d.GitHubJobID,
			ReceivedAt: d.ReceivedAt, Outcome: d.Outcome,
		})
	}
	return &deliveriesOutput{page}, nil
}
