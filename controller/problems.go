package controller

import (
	"context"
	"sync"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/events"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// dismissalSettle is how long after its start a controller has found everything again that was wrong before. Until then it does not
// take a problem for gone that it has not seen.
const dismissalSettle = time.Hour

func newProblems() *problems.Set { return problems.NewSet(time.Now, nil) }

// Problems returns what stands now, in a stable order.
func (c *Controller) Problems() []problems.Problem { return c.problems.List() }

// goneProblems are the problems that have gone and whose dismissals have not been forgotten yet.
type goneProblems struct {
	mu   sync.Mutex
	list []store.Dismissal
}

func (e *goneProblems) add(d store.Dismissal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, d)
}

func (e *goneProblems) take() []store.Dismissal {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.list
	e.list = nil
	return list
}

// problemChanged tells everybody that a problem is new, says something else, or is gone.
func (c *Controller) problemChanged(p problems.Problem, stands bool) {
	if !stands {
		c.gone.add(store.Dismissal{Code: p.Code.String(), Subject: p.Subject})
		c.dismissals.Set()
	}
	c.bus.Publish(events.ProblemsChanged, "")
}

// problemsOfThere clears the problems of objects that have been deleted.
func (c *Controller) problemsOfThere(of problems.Subject, there func(id string) bool) {
	for _, p := range c.problems.List() {
		if p.Code.Kind().Subject == of && !there(p.Subject) {
			c.problems.Clear(p.Code, p.Subject)
		}
	}
}

// dismissalLoop forgets who hid a problem once it is gone: when it comes back it is news.
func (c *Controller) dismissalLoop(ctx context.Context) {
	every(ctx, HousekeepingTick, c.dismissals.C(), func(ctx context.Context) {
		if err := c.endDismissals(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("cannot forget the dismissals of problems that are gone", "err", err)
		}
	})
}

func (c *Controller) endDismissals(ctx context.Context) error {
	gone := c.gone.take()
	if c.now().Sub(c.started) >= dismissalSettle { // also those that went while no controller ran
		all, err := c.store.DismissedProblems(ctx)
		if err != nil {
			return err
		}
		gone = append(gone, all...)
	}
	for i, d := range gone {
		code, _ := problems.Find(d.Code)
		if c.problems.Stands(code, d.Subject) {
			continue // it has come back meanwhile
		}
		if err := c.store.EndDismissals(ctx, d); err != nil {
			for _, left := range gone[i:] {
				c.gone.add(left)
			}
			return err
		}
	}
	return nil
}
