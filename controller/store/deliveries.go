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

// takeDelivery writes a delivery. One that was taken in while no installation was known for it is
// taken in anew once there is one: GitHub sends it again under the same GUID when somebody who has
// added the installation asks for that.
var takeDelivery = deliveryColumns.insert("deliveries") + ` ON CONFLICT (id) DO UPDATE SET installation_id = excluded.installation_id,
	event = excluded.event, action = excluded.action, github_job_id = excluded.github_job_id, received_at = excluded.received_at, outcome = excluded.outcome
	WHERE deliveries.installation_id = '' AND excluded.installation_id <> ''`

// IngestDelivery records a delivery, applies u (nil for none) and credits the installation's
// LastDeliveryAt, in one transaction. fresh is false for a GUID seen before; then nothing changes,
// unless no installation was known for it then and one is now.
func (s *Store) IngestDelivery(ctx context.Context, d Delivery, u *JobUpdate) (fresh bool, c JobChange, err error) {
	now := s.now()
	if d.ReceivedAt.IsZero() {
		d.ReceivedAt = now
	}
	r, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (r ingested, err error) {
		n, err := exec(ctx, t, takeDelivery,
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

func scanDelivery(row scanner) (d Delivery, err error) {
	err = row.Scan(&d.ID, &d.InstallationID, &d.Event, &d.Action, &d.GitHubJobID, intoTime(&d.ReceivedAt), &d.Outcome)
	return d, err
}

// DeliveryFilter selects deliveries. Zero fields select all.
type DeliveryFilter struct {
	InstallationID string
	GitHubJobID    int64
	After          After // where the page before ended
	Limit          int
}

const selectDelivery = "SELECT " + string(deliveryColumns) + " FROM deliveries"

// Deliveries returns deliveries, newest first.
func (s *Store) Deliveries(ctx context.Context, f DeliveryFilter) ([]Delivery, error) {
	var w where
	if f.InstallationID != "" {
		w.add("installation_id = ?", f.InstallationID)
	}
	if f.GitHubJobID != 0 {
		w.add("github_job_id = ?", f.GitHubJobID)
	}
	f.After.in(&w, "received_at")
	list, err := all(ctx, s.readers, scanDelivery, selectDelivery+w.String()+deliveryOrder+limit(f.Limit), w.args...)
	return list, errorf(err, "list deliveries")
}

const deliveryOrder = " ORDER BY received_at DESC, id DESC"
