package controller

import "time"

// Look has the loops look at the rows again: somebody else has changed them.
func (c *Controller) Look() {
	c.reconcile.Set()
	c.provision.Set()
	c.cleanup.Set()
	c.poll.Set()
}

// Started is when this controller was started.
func (c *Controller) Started() time.Time { return c.started }
