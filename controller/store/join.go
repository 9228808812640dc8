package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const joinTokenColumns columns = "id, hash, host_name, embedded, expires_at, used_at, used_by, created_at"

func scanJoinToken(row scanner) (t JoinToken, err error) {
	err = row.Scan(&t.ID, &t.Hash, &t.HostName, &t.Embedded, intoTime(&t.ExpiresAt), intoTime(&t.UsedAt), &t.UsedBy, intoTime(&t.CreatedAt))
	return t, err
}

// CreateJoinToken writes a join token, with a new ID unless it has one, and returns it.
func (s *Store) CreateJoinToken(ctx context.Context, jt JoinToken) (JoinToken, error) {
	if jt.ID == "" {
		jt.ID = NewID(idJoinToken)
	}
	jt.CreatedAt, jt.ExpiresAt = s.now(), stamp(jt.ExpiresAt)
	jt.UsedAt, jt.UsedBy = time.Time{}, ""
	if jt.Hash == "" || !jt.ExpiresAt.After(jt.CreatedAt) {
		return JoinToken{}, errors.New("cannot create a join token: it needs a hash and an end in the future")
	}
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		_, err := exec(ctx, t, joinTokenColumns.insert("join_tokens"),
			jt.ID, jt.Hash, jt.HostName, jt.Embedded, micros(jt.ExpiresAt), int64(0), "", micros(jt.CreatedAt))
		return err
	})
	if err != nil {
		return JoinToken{}, errorf(err, "create a join token")
	}
	return jt, nil
}

const selectJoinToken = "SELECT " + string(joinTokenColumns) + " FROM join_tokens"

// JoinTokens returns the join tokens of remote hosts, spent ones too until they are pruned.
func (s *Store) JoinTokens(ctx context.Context) ([]JoinToken, error) {
	list, err := all(ctx, s.readers, scanJoinToken, selectJoinToken+" WHERE NOT embedded ORDER BY created_at, id")
	return list, errorf(err, "list join tokens")
}

// JoinToken returns one join token. ErrNotFound when there is none.
func (s *Store) JoinToken(ctx context.Context, id string) (JoinToken, error) {
	jt, err := one(ctx, s.readers, scanJoinToken, selectJoinToken+" WHERE id = ?", id)
	return jt, errorf(err, "read a join token")
}

// DeleteJoinToken revokes a join token. ErrNotFound when there is none.
func (s *Store) DeleteJoinToken(ctx context.Context, id string) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		return execOne(ctx, t, "DELETE FROM join_tokens WHERE id = ?", id)
	})
	return errorf(err, "revoke join token %s", id)
}

// joined is what a join changed.
type joined struct {
	host   Host
	failed []Runner
}

// JoinHost spends the join token and makes or renews the host, in one transaction. A host that
// joins again under its name keeps its ID, its cordon and its history, and gets the new agent
// token; every live runner recorded on it goes to failed and its outstanding tasks fail, since
// its agent knows nothing of them. Those runners are returned.
//
// The same join again (the spent token, the name and the agent token's hash that it was spent
// with) is the repeat of one whose answer was lost: until the token expires it returns the host
// and changes nothing. Whoever has only the join token cannot repeat it, and learns nothing.
//
// A name that is taken is given up only to a token that is bound to it; the name of the
// controller's own host only to another of its own. Both are ErrConflict otherwise, and the
// token stays good.
//
// A token that was made for a rented machine admits that machine alone, while it is still wanted, and links the host to it. The name
// of a rented machine is ErrConflict to any other token.
func (s *Store) JoinHost(ctx context.Context, joinTokenHash, name, agentTokenHash string, u HostUpdate) (Host, []Runner, error) {
	if name == "" || agentTokenHash == "" {
		return Host{}, nil, errors.New("cannot join a host: it needs a name and a token")
	}
	now := s.now()
	j, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (joined, error) {
		jt, err := one(ctx, t, scanJoinToken, selectJoinToken+" WHERE hash = ?", joinTokenHash)
		if errors.Is(err, ErrNotFound) || err == nil && !jt.admits(name, now) {
			return joined{}, ErrTokenSpent
		} else if err != nil {
			return joined{}, err
		}
		m, err := joinMachine(ctx, t, jt, name)
		if err != nil {
			return joined{}, err
		}
		if !jt.UsedAt.IsZero() {
			return repeatJoin(ctx, t, jt, name, agentTokenHash)
		}
		j, err := renewHost(ctx, t, jt, name, agentTokenHash, u, now)
		if err != nil {
			return joined{}, err
		}
		n, err := exec(ctx, t, "UPDATE join_tokens SET used_at = ?, used_by = ? WHERE id = ? AND used_at = 0", micros(now), j.host.ID, jt.ID)
		if err == nil && n != 1 {
			err = ErrTokenSpent
		}
		if err == nil && m != nil {
			err = m.joinedAs(ctx, t, j.host.ID, now)
		}
		return j, err
	})
	return j.host, j.failed, errorf(err, "join host %q", name)
}

// admits says whether the token lets a host of that name in now, or would if it were not spent.
func (jt *JoinToken) admits(name string, now time.Time) bool {
	return now.Before(jt.ExpiresAt) && (jt.HostName == "" || jt.HostName == name)
}

// repeatJoin answers a join with a spent token: the host that spent it, if it is the same one.
func repeatJoin(ctx context.Context, t *tx, jt JoinToken, name, tokenHash string) (joined, error) {
	h, hash, err := hostAndHash(ctx, t, jt.UsedBy)
	if errors.Is(err, ErrNotFound) || err == nil && (h.Name != name || !sameHash(hash, tokenHash)) {
		return joined{}, ErrTokenSpent
	}
	return joined{host: h}, err
}

// renewHost makes the host's row, or brings the one of that name back to life.
func renewHost(ctx context.Context, t *tx, jt JoinToken, name, tokenHash string, u HostUpdate, now time.Time) (j joined, err error) {
	known, err := all(ctx, t, scanHost, selectHost+" WHERE name = ?", name)
	if err != nil {
		return j, err
	}
	if len(known) == 0 {
		j.host = Host{ID: NewID(idHost), Name: name, Embedded: jt.Embedded, LastHeartbeatAt: now, JoinedAt: now}
		j.host.apply(u)
		_, err := exec(ctx, t, "INSERT INTO hosts ("+string(hostColumns)+", token_hash) VALUES ("+marks(len(hostColumns.names())+1)+")",
			append(j.host.values(), tokenHash)...)
		return j, err
	}
	j.host = known[0]
	if j.host.Embedded != jt.Embedded {
		return j, fmt.Errorf("%w: the name belongs to the controller's own host or to a remote one; give the host another name", ErrConflict)
	}
	if jt.HostName == "" {
		return j, fmt.Errorf("%w: a host named %s is in the fleet; give this one another name, or, if it is the same machine made anew, "+
			"join it with a token that is made for that name", ErrConflict, name)
	}
	j.host.apply(u)
	j.host.LastHeartbeatAt, j.host.LostAt, j.host.JoinedAt = now, time.Time{}, now
	if err := execOne(ctx, t, hostColumns.update("hosts"), append(j.host.values(), j.host.ID)...); err != nil {
		return j, err
	}
	if err := execOne(ctx, t, "UPDATE hosts SET token_hash = ? WHERE id = ?", tokenHash, j.host.ID); err != nil {
		return j, err
	}
	const why = "the host joined again and its agent knows nothing of this runner"
	live, err := all(ctx, t, scanRunner, selectRunner+" WHERE host_id = ? AND "+liveRunner+" ORDER BY created_at, id", j.host.ID)
	if err != nil {
		return j, err
	}
	for _, r := range live {
		r, _, err := transition(ctx, t, r, RunnerFailed, Change{Message: why}, now)
		if err != nil {
			return j, err
		}
		j.failed = append(j.failed, r)
	}
	_, err = failHostTasks(ctx, t, j.host.ID, "the host joined again", now)
	return j, err
}
