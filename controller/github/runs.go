package github

import (
	"context"
	"errors"
	"fmt"

	gh "github.com/google/go-github/v66/github"
)

// RerunJob implements API. GitHub makes a new job of it, which a delivery tells of.
func (c *Client) RerunJob(ctx context.Context, repository string, id int64) error {
	owner, name, err := splitRepository(repository)
	if err != nil {
		return fmt.Errorf("cannot run job %d again: %w", id, err)
	}
	op := operation{what: fmt.Sprintf("run job %d of %s again", id, repository), effect: acts, quota: quotaCore}
	return c.call(ctx, op, func(ctx context.Context) error {
		_, err := c.gh.Actions.RerunJobByID(ctx, owner, name, id)
		return accepted(err)
	})
}

// CancelRun implements API. Jobs that run are stopped by their runners, which takes a while.
func (c *Client) CancelRun(ctx context.Context, repository string, runID int64) error {
	owner, name, err := splitRepository(repository)
	if err != nil {
		return fmt.Errorf("cannot cancel run %d: %w", runID, err)
	}
	op := operation{what: fmt.Sprintf("cancel run %d of %s", runID, repository), effect: acts, quota: quotaCore}
	return c.call(ctx, op, func(ctx context.Context) error {
		_, err := c.gh.Actions.CancelWorkflowRunByID(ctx, owner, name, runID)
		return accepted(err)
	})
}

// accepted is nil for what go-github calls an error: that GitHub will do it in its own time.
func accepted(err error) error {
	if _, ok := errors.AsType[*gh.AcceptedError](err); ok {
		return nil
	}
	return err
}
