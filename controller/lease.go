package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// leaseLoop renews this controller's lease on the database. When somebody else has taken it, two schedulers would be running, which
// no process recovers from by trying again: the problem is raised and stays, and this controller stands down. It decides, mints,
// reaps and hands out nothing any more, and only says why.
func (c *Controller) leaseLoop(ctx context.Context, resign func()) {
	if c.holder.ID == "" {
		return
	}
	every(ctx, LeaseTTL/3, nil, func(ctx context.Context) {
		c.renewLease(ctx)
		if c.stoodDown.Load() {
			resign() // the loops end, and what they had begun; this one goes on saying why
		}
	})
}

func (c *Controller) renewLease(ctx context.Context) {
	err := c.store.RenewLease(ctx, c.holder.ID, LeaseTTL)
	switch {
	case err == nil, ctx.Err() != nil:
	case errors.Is(err, store.ErrLeaseLost):
		c.stoodDown.Store(true)
		c.log.Error("another controller has taken this database: stop one of the two", "err", err)
		c.problems.Raise("", problems.Problem{
			Code:  problems.LeaseLost,
			Title: "Another controller has taken this one's database",
			Why:   fmt.Sprintf("This controller's lease was taken: %v. This one has stood down: it decides nothing and hands out no task.", err),
			Fix:   "Stop one of the two controllers, then restart the other.",
		})
	default:
		c.log.Error("cannot renew the lease on the database", "err", err)
	}
}
