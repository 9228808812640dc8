package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// reportChunk is how many runners one report speaks of.
const reportChunk = 500

// lastReportTimeout bounds the report that a stopping agent sends.
const lastReportTimeout = 10 * time.Second

// reportLoop says what the host sees of its runners: at once when something changed, and
// every ReportInterval.
func (a *Agent) reportLoop(ctx context.Context) {
	retry := newRetry(RetryMin, RetryMax)
	for a.reportNow.wait(ctx, ReportInterval) {
		for {
			err := a.reportOnce(ctx)
			if err == nil {
				retry.reset()
				break
			}
			if ctx.Err() != nil {
				return
			}
			if errors.Is(err, protocol.ErrUnauthorized) {
				continue
			}
			wait := retry.next()
			a.log.Warn("cannot report to the controller yet", "error", err, "again_in", wait)
			if !sleep(ctx, wait) {
				return
			}
		}
	}
}

// reportOnce sends a report of every runner and takes the answer.
func (a *Agent) reportOnce(ctx context.Context) error {
	for reports := range slices.Chunk(a.reports(), reportChunk) {
		var resp protocol.ReportResponse
		err := a.call(ctx, func(ctx context.Context, cred protocol.Credential) (err error) {
			resp, err = a.cfg.Controller.Report(ctx, cred, reports)
			return err
		})
		if err != nil {
			return err
		}
		a.acknowledge(reports, resp)
	}
	return nil
}

// reports is what there is to say, in the order of runner IDs.
func (a *Agent) reports() []protocol.RunnerReport {
	a.fleet.mu.Lock()
	defer a.fleet.mu.Unlock()
	var rs []protocol.RunnerReport
	for _, t := range a.fleet.byID {
		if !t.starting && t.workload != "" && !t.createdUnjudged() {
			rs = append(rs, t.report())
		}
	}
	slices.SortFunc(rs, func(x, y protocol.RunnerReport) int { return cmp.Compare(x.RunnerID, y.RunnerID) })
	return rs
}

// createdUnjudged says that the workload was made but not started, and may yet be claimed by
// a create that is delivered again.
func (t *tracked) createdUnjudged() bool { return t.createdPhase && t.end == nil }

// acknowledge takes the controller's answer to reports.
func (a *Agent) acknowledge(reports []protocol.RunnerReport, resp protocol.ReportResponse) {
	a.retention.Store(int64(max(resp.FinishedRetention.Duration(), 0)))
	finished := map[string]bool{}
	for _, id := range resp.Finished {
		finished[id] = true
	}
	now := a.now()
	f := a.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range reports {
		t := f.byID[r.RunnerID]
		if t == nil || t.workload != r.WorkloadID {
			continue
		}
		if r.State == stateRegistering {
			t.announced = true
		}
		if !finished[t.id] {
			t.disclaimed, t.orphan = time.Time{}, false
			continue
		}
		switch toldEnd := r.State == stateRemoved || r.State == stateFailed; {
		case t.gone && r.Phase == protocol.PhaseMissing:
			delete(f.byID, t.id)
		case t.end != nil && toldEnd:
			if t.ackAt.IsZero() {
				t.ackAt = now
				a.sweepNow.up()
			}
		case t.end == nil && t.disclaimed.IsZero():
			t.disclaimed = now
			a.log.Warn("the controller says that a running runner has ended or is unknown", "runner", t.id, "removed_after", OrphanGrace)
		case t.end == nil && now.Sub(t.disclaimed) >= OrphanGrace:
			t.orphan = true
			a.sweepNow.up()
		}
	}
}

// lastReport is what a stopping agent says, after one more look at the host.
func (a *Agent) lastReport() {
	if a.session.isRefused() {
		return
	}
	ctx, cancel := context.WithTimeout(a.deliver, lastReportTimeout)
	defer cancel()
	for _, b := range a.backends {
		_, _ = a.observe(ctx, b) // what cannot be seen is reported as it was
	}
	if err := a.reportOnce(ctx); err != nil {
		a.log.Warn("the last report did not reach the controller; the next agent on this host reports what it finds", "error", err)
	}
}
