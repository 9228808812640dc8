package store_test

import (
	"errors"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/store"
	"github.com/zoomies-fleet/zoomies/controller/store/storetest"
)

// A5: the same GUID twice, and the same job through the organisation's hook and the repository's.
func TestADeliveryCountsOnceAndAJobThroughTwoHooksIsOneRow(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	queued := store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: 1, State: store.JobQueued}
	running := queued
	running.State = store.JobInProgress
	d := store.Delivery{ID: "guid-1", InstallationID: f.Installation.ID, Event: "workflow_job", Action: "queued", GitHubJobID: 1, ReceivedAt: c.now()}
	fresh, first, err := s.IngestDelivery(t.Context(), d, &queued)
	if err != nil || !fresh || !first.Changed {
		t.Fatal(fresh, first, err)
	}
	d.ReceivedAt = c.step(time.Minute)
	if fresh, again, err := s.IngestDelivery(t.Context(), d, &running); err != nil || fresh || again.Changed {
		t.Errorf("the same GUID again: %v, %+v, %v", fresh, again, err)
	}
	if j, err := s.Job(t.Context(), first.Job.ID); err != nil || j.State != store.JobQueued {
		t.Errorf("the repeated delivery changed the job to %s (%v)", j.State, err)
	}
	in, err := s.Installation(t.Context(), f.Installation.ID)
	if err != nil || !in.LastDeliveryAt.Equal(c.now().Add(-time.Minute)) {
		t.Errorf("credited %v, %v", in.LastDeliveryAt, err)
	}
	d.ID = "guid-2"
	fresh, second, err := s.IngestDelivery(t.Context(), d, &queued)
	if err != nil || !fresh || second.Changed || second.Job.ID != first.Job.ID {
		t.Errorf("the other hook: %v, %+v, %v", fresh, second, err)
	}
	if all, err := s.Jobs(t.Context(), store.JobFilter{}); err != nil || len(all) != 1 {
		t.Errorf("%d rows, %v", len(all), err)
	}
}

// A11: a webhook and a poll that say the same add up to one job.
func TestAPollAndAWebhookOfOneJobAreOneRow(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	u := store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: 1, State: store.JobQueued}
	errs := make(chan error)
	for i := range 8 {
		go func() {
			var err error
			if i%2 == 0 {
				_, _, err = s.IngestDelivery(t.Context(), store.Delivery{ID: string(rune('a' + i)), InstallationID: f.Installation.ID}, &u)
			} else {
				polled := u
				polled.Authoritative = true
				_, err = s.UpsertJob(t.Context(), polled)
			}
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if all, err := s.Jobs(t.Context(), store.JobFilter{}); err != nil || len(all) != 1 {
		t.Errorf("%d rows, %v", len(all), err)
	}
}

// Somebody adds the installation that was missing and presses "Redeliver": the same GUID must count then, once.
func TestADeliveryThatNobodyOwnedCountsOnceSomebodyDoes(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	orphan := store.Delivery{ID: "guid", Event: "workflow_job", Outcome: "no installation serves acme/site"}
	for i, want := range []bool{true, false} {
		if fresh, _, err := s.IngestDelivery(t.Context(), orphan, nil); err != nil || fresh != want {
			t.Errorf("delivery %d without an installation: %v, %v", i, fresh, err)
		}
	}
	f := storetest.Seed(t, s)
	c.step(time.Minute)
	owned, u := orphan, store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: 1, State: store.JobQueued}
	owned.InstallationID, owned.Outcome = f.Installation.ID, "applied"
	if fresh, ch, err := s.IngestDelivery(t.Context(), owned, &u); err != nil || !fresh || !ch.Changed {
		t.Errorf("the redelivery: %v, %+v, %v", fresh, ch, err)
	}
	if in, err := s.Installation(t.Context(), f.Installation.ID); err != nil || !in.LastDeliveryAt.Equal(c.now()) {
		t.Errorf("credited %v, %v", in.LastDeliveryAt, err)
	}
	for name, d := range map[string]store.Delivery{"owned": owned, "orphaned": orphan} {
		if fresh, _, err := s.IngestDelivery(t.Context(), d, nil); err != nil || fresh {
			t.Errorf("once more, %s: %v, %v", name, fresh, err)
		}
	}
}

func TestADeliveryWhoseJobIsRefusedIsNotRecorded(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	bad := store.JobUpdate{InstallationID: f.Installation.ID, GitHubID: 1, State: "requested"}
	if _, _, err := s.IngestDelivery(t.Context(), store.Delivery{ID: "g"}, &bad); err == nil {
		t.Fatal("a state that does not exist was taken")
	}
	good := bad
	good.State = store.JobQueued
	if fresh, _, err := s.IngestDelivery(t.Context(), store.Delivery{ID: "g"}, &good); err != nil || !fresh {
		t.Errorf("the redelivery: %v, %v", fresh, err)
	}
	if fresh, _, err := s.IngestDelivery(t.Context(), store.Delivery{ID: "ping"}, nil); err != nil || !fresh {
		t.Errorf("a delivery of no job: %v, %v", fresh, err)
	}
	unknown := store.JobUpdate{InstallationID: "ins_none", GitHubID: 1, State: store.JobQueued}
	if _, err := s.UpsertJob(t.Context(), unknown); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a job of no installation: %v", err)
	}
}

func TestDeliveriesAreReadPageByPage(t *testing.T) {
	t.Parallel()
	c := newClock()
	s := storetest.OpenWith(t, store.Options{Now: c.now})
	f := storetest.Seed(t, s)
	at := c.now()
	// Three at one instant, so that only their IDs tell them apart.
	for i, id := range []string{"a", "b", "c", "d", "e"} {
		d := store.Delivery{ID: id, Event: "workflow_job", Action: "queued", GitHubJobID: int64(1 + i%2), ReceivedAt: at, Outcome: "applied"}
		if i%2 == 0 {
			d.InstallationID = f.Installation.ID
		}
		if i == 4 {
			d.ReceivedAt = at.Add(time.Second)
		}
		if _, _, err := s.IngestDelivery(t.Context(), d, nil); err != nil {
			t.Fatal(err)
		}
	}
	read := func(q store.DeliveryFilter) (ids string) {
		for q.Limit = 2; ; {
			page, err := s.Deliveries(t.Context(), q)
			if err != nil || len(page) > 2 {
				t.Fatal(len(page), err)
			}
			for _, d := range page {
				ids += d.ID
			}
			if len(page) < 2 {
				return ids
			}
			q.After = store.After{At: page[1].ReceivedAt, ID: page[1].ID}
		}
	}
	for want, q := range map[string]store.DeliveryFilter{
		"edcba": {}, "eca": {InstallationID: f.Installation.ID}, "db": {GitHubJobID: 2}, "": {InstallationID: "ins_none"},
	} {
		if got := read(q); got != want {
			t.Errorf("%+v: %q, want %q", q, got, want)
		}
	}
}

func TestInstallationsAreCreatedAllOrNone(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t)
	f := storetest.Seed(t, s)
	_, err := s.CreateInstallations(t.Context(), []store.Installation{{Name: "new", AppID: 1, InstallationID: 5}, {Name: f.Installation.Name, AppID: 1, InstallationID: 6}})
	if !errors.Is(err, store.ErrConflict) {
		t.Errorf("a taken name: %v", err)
	}
	if list, err := s.Installations(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("%d installations, %v", len(list), err)
	}
	made, err := s.CreateInstallations(t.Context(), []store.Installation{{Name: "x", InstallationID: 5}, {Name: "y", InstallationID: 6}})
	if err != nil || len(made) != 2 || made[0].ID == "" || made[0].ID == made[1].ID {
		t.Errorf("%+v, %v", made, err)
	}
}
