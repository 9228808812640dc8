package github

import (
	"context"
	"errors"
	"fmt"
	"time"

	gh "github.com/google/go-github/v66/github"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

const (
	defaultGroup      = 1
	defaultWorkFolder = "_work"
	maxLabels         = 100 // GitHub's
)

// MintJIT registers one just-in-time runner and returns what starts it. It waits for the Governor first, so ctx should
// allow for up to a minute. ErrUnknown means that the registration may exist although its configuration is lost: look
// for the name (FindRunner) and delete it, or wait; never mint another in its stead without looking.
func (c *Client) MintJIT(ctx context.Context, s Scope, r JITRequest) (JIT, error) {
	at, err := s.target()
	switch {
	case err != nil:
		return JIT{}, fmt.Errorf("cannot mint runner %q: %w", r.Name, err)
	case r.Name == "" || len(r.Labels) == 0 || len(r.Labels) > maxLabels:
		return JIT{}, fmt.Errorf("cannot mint runner %q: a registration needs a name and 1 to %d labels", r.Name, maxLabels)
	}
	op := operation{what: fmt.Sprintf("mint runner %q at %s", r.Name, at), effect: mints, quota: quotaRegistration}
	if l := c.limits.check(op.quota, c.now()); l != nil { // a refusal that is certain must not take a place in the queue
		return JIT{}, &CallError{text: "cannot " + op.what + ": " + l.Error(), classes: []error{l}}
	}
	body := &gh.GenerateJITConfigRequest{Name: r.Name, Labels: r.Labels, RunnerGroupID: r.GroupID, WorkFolder: &r.WorkFolder}
	if body.RunnerGroupID == 0 {
		body.RunnerGroupID = defaultGroup
	}
	if r.WorkFolder == "" {
		body.WorkFolder = new(defaultWorkFolder)
	}

	var minted JIT
	err = c.mint.Do(ctx, func(ctx context.Context) error {
		return c.call(ctx, op, func(ctx context.Context) error {
			var got *gh.JITRunnerConfig
			var err error
			if at.org != "" {
				got, _, err = c.gh.Actions.GenerateOrgJITConfig(ctx, at.org, body)
			} else {
				got, _, err = c.gh.Actions.GenerateRepoJITConfig(ctx, at.owner, at.repo, body)
			}
			if err != nil {
				return err
			}
			if got.GetRunner().GetID() <= 0 || got.GetEncodedJITConfig() == "" {
				return errors.New("the answer has no runner or no configuration")
			}
			minted = JIT{RunnerID: got.GetRunner().GetID(), Config: secrets.Of(got.GetEncodedJITConfig())}
			return nil
		})
	})
	return minted, err
}

// RegistrationToken asks for a token for config.sh, good for about an hour. A lost answer leaves nothing behind but a
// token that nobody has, so it is a plain failure.
func (c *Client) RegistrationToken(ctx context.Context, s Scope) (secrets.Value, time.Time, error) {
	at, err := s.target()
	if err != nil {
		return secrets.Value{}, time.Time{}, fmt.Errorf("cannot get a registration token: %w", err)
	}
	var token secrets.Value
	var expires time.Time
	op := operation{what: "get a registration token for " + at.String(), quota: quotaRegistration}
	err = c.mint.Do(ctx, func(ctx context.Context) error {
		return c.call(ctx, op, func(ctx context.Context) error {
			var got *gh.RegistrationToken
			var err error
			if at.org != "" {
				got, _, err = c.gh.Actions.CreateOrganizationRegistrationToken(ctx, at.org)
			} else {
				got, _, err = c.gh.Actions.CreateRegistrationToken(ctx, at.owner, at.repo)
			}
			if err != nil {
				return err
			}
			if got.GetToken() == "" {
				return errors.New("the answer has no token")
			}
			token, expires = secrets.Of(got.GetToken()), got.GetExpiresAt().Time
			return nil
		})
	})
	return token, expires, err
}

// ListRunners lists every registration of the scope. GitHub pages by number while registrations come and go, so that one
// may be missed: absence here is a reason to ask FindRunner, not a proof.
func (c *Client) ListRunners(ctx context.Context, s Scope) ([]Registration, error) {
	at, err := s.target()
	if err != nil {
		return nil, fmt.Errorf("cannot list runners: %w", err)
	}
	var all []Registration
	known := map[int64]bool{}
	err = c.eachRunner(ctx, "list the runners of "+at.String(), at, "", func(r Registration) bool {
		if !known[r.ID] {
			known[r.ID] = true
			all = append(all, r)
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}

// FindRunner looks for the registration of exactly that name; ErrNotFound says that there is none. A scope that the App
// cannot see is ErrUnauthorized, so that it is never taken for a runner that is gone.
func (c *Client) FindRunner(ctx context.Context, s Scope, name string) (Registration, error) {
	at, err := s.target()
	if err != nil {
		return Registration{}, fmt.Errorf("cannot find runner %q: %w", name, err)
	}
	what := fmt.Sprintf("find runner %q at %s", name, at)
	var found Registration
	err = c.eachRunner(ctx, what, at, name, func(r Registration) bool {
		if r.Name == name {
			found = r
		}
		return found.ID == 0
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return Registration{}, fmt.Errorf("cannot %s: %w: it does not show %s to this App; check which repositories the installation covers", what, ErrUnauthorized, at)
	case err != nil:
		return Registration{}, err
	case found.ID == 0:
		return Registration{}, fmt.Errorf("cannot %s: %w", what, ErrNotFound)
	}
	return found, nil
}

// eachRunner visits registrations, of that name or all, until visit returns false. (GitHub Enterprise Server of old
// ignores the name, so visit must still compare.)
func (c *Client) eachRunner(ctx context.Context, what string, at target, name string, visit func(Registration) bool) error {
	return pages(func(page gh.ListOptions) (items, total int, resp *gh.Response, err error) {
		opts := &gh.ListRunnersOptions{ListOptions: page}
		if name != "" {
			opts.Name = &name
		}
		var got *gh.Runners
		err = c.call(ctx, operation{what: what, quota: quotaCore}, func(ctx context.Context) (err error) {
			if at.org != "" {
				got, resp, err = c.gh.Actions.ListOrganizationRunners(ctx, at.org, opts)
			} else {
				got, resp, err = c.gh.Actions.ListRunners(ctx, at.owner, at.repo, opts)
			}
			return err
		})
		if err != nil {
			return 0, 0, nil, err
		}
		for _, r := range got.Runners {
			if r.GetID() > 0 && !visit(registration(r)) {
				return 0, 0, nil, nil
			}
		}
		return len(got.Runners), got.TotalCount, resp, nil
	})
}

func registration(r *gh.Runner) Registration {
	out := Registration{ID: r.GetID(), Name: r.GetName(), Status: r.GetStatus(), Busy: r.GetBusy()}
	for _, l := range r.Labels {
		out.Labels = append(out.Labels, l.GetName())
	}
	return out
}

// DeleteRunner removes a registration by its ID: a just-in-time runner cannot remove itself. It is nil when the
// registration is gone already, and ErrRunnerBusy when GitHub refuses since the runner runs a job.
func (c *Client) DeleteRunner(ctx context.Context, s Scope, id int64) error {
	at, err := s.target()
	if err != nil {
		return fmt.Errorf("cannot delete runner %d: %w", id, err)
	}
	if id <= 0 {
		return fmt.Errorf("cannot delete runner %d: that is not a registration's ID", id)
	}
	op := operation{what: fmt.Sprintf("delete runner %d at %s", id, at), effect: deletes, quota: quotaCore}
	err = c.call(ctx, op, func(ctx context.Context) (err error) {
		if at.org != "" {
			_, err = c.gh.Actions.RemoveOrganizationRunner(ctx, at.org, id)
		} else {
			_, err = c.gh.Actions.RemoveRunner(ctx, at.owner, at.repo, id)
		}
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}
