package controller

import "context"

// Look has the loops look at the rows again: somebody else has changed them.
func (c *Controller) Look() {
	c.reconcile.Set()
	c.provision.Set()
	c.cleanup.Set()
	c.poll.Set()
}

// ApplySettings takes over those settings that count at once, which are written already. None does yet: every row of the registry
// says restart, and a test holds it to that.
func (c *Controller) ApplySettings(context.Context) error {
	c.Look()
	return nil
}
