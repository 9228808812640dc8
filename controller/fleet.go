package controller

// Look has the loops look at the rows again: somebody else has changed them.
func (c *Controller) Look() {
	c.reconcile.Set()
	c.provision.Set()
	c.cleanup.Set()
	c.poll.Set()
}
