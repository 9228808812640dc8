package store

import (
	"context"
	"time"
)

// pruneBatch bounds how many rows one transaction deletes, so that pruning never holds up a
// webhook for long.
const pruneBatch = 500

// prunes delete what is older than a time (their first argument), at most so many rows (their second).
var prunes = []string{
	// A live runner's create task says that its registration was minted: it stays.
	`DELETE FROM tasks WHERE id IN (SELECT id FROM tasks WHERE ` + endedTask + ` AND ended_at < ?
		AND NOT EXISTS (SELECT 1 FROM runners WHERE runners.id = tasks.runner_id AND runners.` + liveRunner + `) LIMIT ?)`,
	`DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries WHERE received_at < ? LIMIT ?)`,
	`DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE state = 'completed' AND completed_at < ?
		AND NOT EXISTS (SELECT 1 FROM runners WHERE runners.id = jobs.runner_id AND runners.` + liveRunner + `) LIMIT ?)`,
	`DELETE FROM runners WHERE id IN (SELECT id FROM runners WHERE state = 'removed' AND ` + finishedRunner + `
		AND deregistered AND cleaned AND finished_at < ? LIMIT ?)`,
	`DELETE FROM join_tokens WHERE id IN (SELECT id FROM join_tokens WHERE expires_at < ? LIMIT ?)`,
	`DELETE FROM provider_setups WHERE id IN (SELECT id FROM provider_setups WHERE expires_at < ? LIMIT ?)`,
	`DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE expires_at < ? LIMIT ?)`,
	`DELETE FROM machines WHERE id IN (SELECT id FROM machines WHERE state = 'deleted' AND deleted_at < ? LIMIT ?)`,
	`DELETE FROM idempotency WHERE id IN (SELECT id FROM idempotency WHERE created_at < ? LIMIT ?)`,
}

// Prune deletes what ended before a time: ended tasks, deliveries, completed jobs, expired join
// tokens, sessions and provider setups, answers kept for idempotency keys, deleted machines, and removed runners of which nothing is left at
// GitHub or on a host. What a live runner
// still refers to stays. It returns how many rows went; it can be interrupted at any time.
func (s *Store) Prune(ctx context.Context, before time.Time) (int, error) {
	total := 0
	for _, query := range prunes {
		for {
			n, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (int, error) {
				return exec(ctx, t, query, micros(before), pruneBatch)
			})
			total += n
			if err != nil {
				return total, errorf(err, "prune the database")
			}
			if n < pruneBatch {
				break
			}
		}
	}
	return total, nil
}
