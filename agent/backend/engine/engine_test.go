package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

func TestAStepUnderWayOutlivesItsCallerForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, giveUp := context.WithCancel(t.Context())
		settled, done := Settle(ctx, 10*time.Second)
		defer done()
		giveUp()
		began := time.Now()
		<-settled.Done()
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it ended after %s", took)
		}
	})
	synctest.Test(t, func(t *testing.T) { // and leaves nothing when it ends by itself
		ctx, giveUp := context.WithCancel(t.Context())
		_, done := Settle(ctx, time.Hour)
		giveUp()
		synctest.Wait()
		done()
	})
}

func TestOneStartAtATimeForARunner(t *testing.T) {
	t.Parallel()
	var s Starts
	end, err := s.Begin("run_1")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin("run_1"); !errors.Is(err, backend.ErrExists) {
		t.Errorf("a second begin: %v", err)
	}
	if _, busy := s.UnderWay()["run_1"]; !busy {
		t.Error("it is not under way")
	}
	end()
	if _, err := s.Begin("run_1"); err != nil {
		t.Errorf("after the end: %v", err)
	}
}

func TestAWorkloadBelongsToOneHost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mine, asked, want string }{
		{"hst_1", "hst_1", "hst_1"}, {"hst_1", "", "hst_1"}, {"", "hst_2", "hst_2"}, {"", "", ""},
	} {
		if got, err := Owner(c.mine, backend.Spec{HostID: c.asked}); got != c.want || err != nil {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	if _, err := Owner("hst_1", backend.Spec{HostID: "hst_2"}); err == nil {
		t.Error("another host's workload is taken")
	}
}
