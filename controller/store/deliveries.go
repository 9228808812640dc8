package store

import (
	"context"
)

const deliveryColumns columns = "id, installation_id, event, action, github_job_id, received_at, outcome"

// ingested is what a delivery changed.
type ingested struct {
	fresh  bool
	change JobChange
}

// IngestDelivery records a delivery, applies u (nil for none) and credits the installation's
// LastDeliveryAt, in one transaction. fresh is false for a GUID seen before; then nothing changes.
func (s *Store) IngestDelivery(ctx context.Context, d Delivery, u *JobUpdate) (fresh bool, c JobChange, err error) {
	now := s.now()
	if d.ReceivedAt.IsZero() {
		d.ReceivedAt = now
	}
	r, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (r ingested, err error) {
		n, err := exec(ctx, t, deliveryColumns.insert("deliveries")+" ON CONFLICT (id) DO NOTHING",
			d.ID, d.InstallationID, d.Event, d.Action, d.GitHubJobID, micros(d.ReceivedAt), d.Outcome)
		if err != nil || n == 0 {
			return r, err
		}
		r.fresh = true
		if u != nil {
			if r.change, err = upsertJob(ctx, t, *u, now); err != nil {
				return r, err
			}
		}
		if d.InstallationID != "" {
			_, err = exec(ctx, t, "UPDATE installations SET last_delivery_at = ? WHERE id = ? AND last_delivery_at < ?",
				micros(d.ReceivedAt), d.InstallationID, micros(d.ReceivedAt))
		}
		return r, err
	})
	return r.fresh, r.change, errorf(err, "record delivery %s", d.ID)
}
