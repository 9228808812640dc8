package store

import (
	"context"
	"fmt"
)

const poolColumns columns = `id, name, installation_id, repository, runner_group_id, labels, backend, image, pull_policy,
	os, arch, host_selector, min_runners, max_runners, priority, enabled, ephemeral,
	idle_timeout, scale_up_delay, max_lifetime, repo_limit, cpus, memory_mb, pids_limit,
	network, read_only, daemon, daemon_image, env, paused_at, pause_reason, created_at, updated_at`

func (p *Pool) values() []any {
	return []any{p.ID, p.Name, p.InstallationID, p.Repository, p.RunnerGroupID, jsonList(p.Labels), p.Backend, p.Image, p.PullPolicy,
		p.OS, p.Arch, jsonMap(p.HostSelector), p.Min, p.Max, p.Priority, p.Enabled, p.Ephemeral,
		p.IdleTimeout.Microseconds(), p.ScaleUpDelay.Microseconds(), p.MaxLifetime.Microseconds(), p.RepoLimit, p.CPUs, p.MemoryMB, p.PidsLimit,
		p.Network, p.ReadOnly, p.Daemon, p.DaemonImage, jsonMap(p.Env), micros(p.PausedAt), p.PauseReason, micros(p.CreatedAt), micros(p.UpdatedAt)}
}

func scanPool(row scanner) (p Pool, err error) {
	err = row.Scan(&p.ID, &p.Name, &p.InstallationID, &p.Repository, &p.RunnerGroupID, intoJSON(&p.Labels), &p.Backend, &p.Image, &p.PullPolicy,
		&p.OS, &p.Arch, intoJSON(&p.HostSelector), &p.Min, &p.Max, &p.Priority, &p.Enabled, &p.Ephemeral,
		intoDuration(&p.IdleTimeout), intoDuration(&p.ScaleUpDelay), intoDuration(&p.MaxLifetime), &p.RepoLimit, &p.CPUs, &p.MemoryMB, &p.PidsLimit,
		&p.Network, &p.ReadOnly, &p.Daemon, &p.DaemonImage, intoJSON(&p.Env), intoTime(&p.PausedAt), &p.PauseReason, intoTime(&p.CreatedAt), intoTime(&p.UpdatedAt))
	return p, err
}

// CreatePool writes a new pool, with a new ID unless it has one, and returns it. ErrConflict when
// the name is taken, ErrNotFound when there is no such installation.
func (s *Store) CreatePool(ctx context.Context, p Pool) (Pool, error) {
	if p.ID == "" {
		p.ID = NewID(idPool)
	}
	p.CreatedAt = s.now()
	p.UpdatedAt = p.CreatedAt
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		_, err := exec(ctx, t, poolColumns.insert("pools"), p.values()...)
		return err
	})
	if err != nil {
		return Pool{}, errorf(err, "create pool %q", p.Name)
	}
	return p, nil
}

// UpdatePool writes a whole pool but for its creation time.
func (s *Store) UpdatePool(ctx context.Context, p Pool) error {
	p.UpdatedAt = s.now()
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		old, err := one(ctx, t, scanPool, selectPool+" WHERE id = ?", p.ID)
		if err != nil {
			return err
		}
		p.CreatedAt = old.CreatedAt
		return execOne(ctx, t, poolColumns.update("pools"), append(p.values(), p.ID)...)
	})
	return errorf(err, "update pool %q", p.Name)
}

const selectPool = "SELECT " + string(poolColumns) + " FROM pools"

// Pool returns one pool. ErrNotFound when there is none.
func (s *Store) Pool(ctx context.Context, id string) (Pool, error) {
	p, err := one(ctx, s.readers, scanPool, selectPool+" WHERE id = ?", id)
	return p, errorf(err, "read pool %s", id)
}

// Pools returns all pools by name.
func (s *Store) Pools(ctx context.Context) ([]Pool, error) {
	list, err := all(ctx, s.readers, scanPool, selectPool+" ORDER BY name")
	return list, errorf(err, "list pools")
}

// DeletePool deletes a pool. ErrConflict while it has live runners; rows of finished ones stay.
func (s *Store) DeletePool(ctx context.Context, id string) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		if used, err := exists(ctx, t, "SELECT id FROM runners WHERE pool_id = ? AND "+liveRunner+" LIMIT 1", id); err != nil {
			return err
		} else if used {
			return fmt.Errorf("%w: it has live runners; disable it and wait until they are gone", ErrConflict)
		}
		if _, err := exec(ctx, t, "DELETE FROM grants WHERE scope_id = ?", id); err != nil {
			return err
		}
		return execOne(ctx, t, "DELETE FROM pools WHERE id = ?", id)
	})
	return errorf(err, "delete pool %s", id)
}
