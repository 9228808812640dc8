package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// ErrCannotJoin says that the host has no credential and no join token that the controller
// takes: trying again without a new token is no use.
var ErrCannotJoin = errors.New("the host needs a new join token")

const newTokenAdvice = "make a join token on the controller and start the agent with it"

// open loads the credential, or joins for one. It tries until ctx ends as long as only the
// network is in the way.
func (a *Agent) open(ctx context.Context) error {
	st, err := LoadState(a.cfg.StatePath)
	if err != nil {
		return err
	}
	if st.HostID != "" && st.AgentToken != "" {
		if a.cfg.Address != "" && (st.Controller != a.cfg.Address || st.CAPin != a.cfg.CAPin) {
			a.log.Info("the controller has another address or pin now", "was", st.Controller, "is", a.cfg.Address)
			st.Controller, st.CAPin = a.cfg.Address, a.cfg.CAPin
			if err := st.save(a.cfg.StatePath); err != nil {
				return err
			}
		}
		a.session.set(st.credential())
		return nil
	}
	retry := newRetry(RetryMin, RetryMax)
	for {
		err := a.join(ctx)
		switch {
		case err == nil, errors.Is(err, ErrCannotJoin), ctx.Err() != nil:
			return err
		case errors.Is(err, errState):
			return err
		}
		wait := retry.next()
		a.log.Warn("cannot join the controller yet", "error", err, "again_in", wait)
		if !sleep(ctx, wait) {
			return ctx.Err()
		}
	}
}

// errState marks a failure to keep the credential that a join has brought.
var errState = errors.New("the credential could not be kept")

// join trades a join token for a credential and keeps it. The agent chooses its agent token, and
// keeps it, before it asks: when the answer is lost it asks the same again, and the controller,
// which has the hash of that token in the host's row already, answers the same again.
func (a *Agent) join(ctx context.Context) error {
	st, err := LoadState(a.cfg.StatePath)
	if err != nil {
		return errors.Join(errState, err)
	}
	joinToken, err := a.joinToken(ctx, &st)
	if err != nil {
		return err
	}
	agentToken := st.begin(joinToken)
	if err := st.save(a.cfg.StatePath); err != nil {
		return errors.Join(errState, err)
	}
	info := a.hostInfo(ctx)
	callCtx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	resp, err := a.cfg.Controller.Join(callCtx, protocol.JoinRequest{
		Token: joinToken, Name: a.cfg.Name, AgentTokenHash: protocol.HashAgentToken(agentToken), Version: a.cfg.Version,
		Protocol: protocol.Version, Host: info,
	})
	switch {
	case errors.Is(err, protocol.ErrUnauthorized) && a.cfg.NewJoinToken != nil:
		a.cfg.JoinToken, a.offered = "", "" // it has expired; the next try gets a new one
		return fmt.Errorf("cannot join: %w", err)
	case errors.Is(err, protocol.ErrUnauthorized), errors.Is(err, protocol.ErrInvalid), errors.Is(err, protocol.ErrConflict):
		return fmt.Errorf("cannot join: %w (%w): %s", err, ErrCannotJoin, newTokenAdvice)
	case err != nil:
		return fmt.Errorf("cannot join: %w", err)
	case resp.HostID == "":
		return errors.New("cannot join: the controller's answer has no identity in it")
	}
	if resp.AgentToken != "" {
		agentToken = resp.AgentToken // a controller that chooses it itself
	}
	st.joined(joinToken, resp.HostID, agentToken, a.cfg.Address)
	st.CAPin = a.cfg.CAPin
	if err := st.save(a.cfg.StatePath); err != nil {
		return errors.Join(errState, err)
	}
	a.setInterval(resp.HeartbeatInterval)
	a.session.set(st.credential())
	a.log.Info("joined the controller", "host", resp.HostID)
	return nil
}

// joinToken is the token to join with: the one that was handed to this host, as long as it has not
// been traded in, or else one from the source of new ones. The latter serves until it is refused,
// so that a join whose answer is lost is repeated with the same.
func (a *Agent) joinToken(ctx context.Context, st *State) (string, error) {
	switch {
	case st.fresh(a.cfg.JoinToken):
		return a.cfg.JoinToken, nil
	case st.fresh(a.offered):
		return a.offered, nil
	case a.cfg.NewJoinToken != nil:
		token, err := a.cfg.NewJoinToken(ctx)
		if err != nil {
			return "", fmt.Errorf("cannot get a join token: %w", err)
		}
		if token == "" {
			return "", errors.New("cannot get a join token: the source of new ones gave none")
		}
		a.offered = token
		return token, nil
	case a.cfg.JoinToken == "":
		return "", fmt.Errorf("cannot join: %w: %s", ErrCannotJoin, newTokenAdvice)
	default:
		return "", fmt.Errorf("cannot join: this join token was used on this host before: %w: %s", ErrCannotJoin, newTokenAdvice)
	}
}

// sessionLoop looks after a credential that the controller refused: it joins again with a
// token that has not been spent, or else asks again rarely, since the host was deleted or
// replaced on purpose. Runners are left alone meanwhile.
func (a *Agent) sessionLoop(ctx context.Context) {
	for a.session.awaitRefusal(ctx) {
		retry := newRetry(RefusedMin, RefusedMax)
		for a.session.isRefused() {
			was := a.HostID()
			err := a.join(ctx)
			if err == nil {
				if a.HostID() != was {
					a.rehosted(fmt.Errorf("%w: it was %s and is %s", ErrHostChanged, was, a.HostID()))
				}
				a.reportNow.up()
				break
			}
			if ctx.Err() != nil {
				return
			}
			wait := retry.next()
			if errors.Is(err, ErrCannotJoin) {
				a.log.Error("the controller does not know this host any more and its runners are left running: "+newTokenAdvice,
					"host", a.HostID(), "error", err, "asking_again_in", wait)
			} else {
				a.log.Warn("cannot join the controller again yet", "error", err, "again_in", wait)
			}
			if !sleep(ctx, wait) {
				return
			}
			a.tryRefused(ctx)
		}
	}
}

// tryRefused asks whether the refused credential is good again, as it is after a controller
// was restored from a backup.
func (a *Agent) tryRefused(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	cred := a.session.credential()
	if _, err := a.cfg.Controller.Heartbeat(ctx, cred, a.heartbeat(ctx)); err == nil {
		a.log.Info("the controller knows this host again", "host", cred.HostID)
		a.session.set(cred)
	}
}

func (a *Agent) setInterval(s protocol.Seconds) {
	if d := s.Duration(); d > 0 {
		a.interval.Store(int64(min(max(d, time.Second), 10*time.Minute)))
	}
}
