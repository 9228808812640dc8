package store

import (
	"context"
	"crypto/subtle"
	"fmt"
	"time"
)

const hostColumns columns = `id, name, embedded, os, arch, distro, agent_version, cpus, memory_mb, disk_total_mb, disk_free_mb,
	capacity, labels, backends, cordoned, draining, last_heartbeat_at, lost_at, joined_at`

const selectHost = "SELECT " + string(hostColumns) + " FROM hosts"

func (h *Host) values() []any {
	return []any{h.ID, h.Name, h.Embedded, h.OS, h.Arch, h.Distro, h.AgentVersion, h.CPUs, h.MemoryMB, h.DiskTotalMB, h.DiskFreeMB,
		h.Capacity, jsonMap(h.Labels), jsonList(h.Backends), h.Cordoned, h.Draining, micros(h.LastHeartbeatAt), micros(h.LostAt), micros(h.JoinedAt)}
}

func scanHost(row scanner) (h Host, err error) {
	err = row.Scan(&h.ID, &h.Name, &h.Embedded, &h.OS, &h.Arch, &h.Distro, &h.AgentVersion, &h.CPUs, &h.MemoryMB, &h.DiskTotalMB, &h.DiskFreeMB,
		&h.Capacity, intoJSON(&h.Labels), intoJSON(&h.Backends), &h.Cordoned, &h.Draining, intoTime(&h.LastHeartbeatAt), intoTime(&h.LostAt), intoTime(&h.JoinedAt))
	return h, err
}

// Free disk space is never twice the same: it is written when it has moved by more than a
// twentieth of what it was or by this much, whichever is more. On a disk that is nearly full each
// percent is written: whether the host takes another runner hangs on it, and 256 MiB may be all
// that a small one has.
const (
	diskFreeToleranceShare   = 20  // one part in so many
	diskFreeToleranceFloorMB = 256 // MiB
	diskNearlyFull           = 80  // percent used
)

// DiskUsed is how full the host's disk is in percent, rounded down; 0 when its size is not known.
func (h *Host) DiskUsed() int { return diskUsed(h.DiskTotalMB, h.DiskFreeMB) }

func diskUsed(totalMB, freeMB int64) int {
	if totalMB <= 0 {
		return 0
	}
	return int((totalMB - min(max(freeMB, 0), totalMB)) * 100 / totalMB)
}

// apply takes over what an agent says of its host. Zero fields say nothing; a disk is measured
// when its size is there, so that a full one may have no free space.
func (h *Host) apply(u HostUpdate) {
	for field, said := range map[*string]string{
		&h.AgentVersion: u.AgentVersion, &h.OS: u.OS, &h.Arch: u.Arch, &h.Distro: u.Distro,
	} {
		if said != "" {
			*field = said
		}
	}
	if u.CPUs > 0 {
		h.CPUs = u.CPUs
	}
	if u.MemoryMB > 0 {
		h.MemoryMB = u.MemoryMB
	}
	if u.Capacity > 0 {
		h.Capacity = u.Capacity
	}
	if u.Labels != nil {
		h.Labels = u.Labels
	}
	if u.Backends != nil {
		h.Backends = u.Backends
	}
	if u.DiskTotalMB > 0 {
		was, is := h.DiskUsed(), diskUsed(u.DiskTotalMB, u.DiskFreeMB)
		if u.DiskTotalMB != h.DiskTotalMB || diskFreeMoved(h.DiskFreeMB, u.DiskFreeMB) || was != is && max(was, is) >= diskNearlyFull {
			h.DiskFreeMB = u.DiskFreeMB
		}
		h.DiskTotalMB = u.DiskTotalMB
	}
}

func diskFreeMoved(was, is int64) bool {
	moved := is - was
	if moved < 0 {
		moved = -moved
	}
	return moved > max(was/diskFreeToleranceShare, diskFreeToleranceFloorMB)
}

// HostByToken returns the host when the hash is its agent token's. ErrNotFound when there is no
// such host or the token is another's; the error does not say which.
func (s *Store) HostByToken(ctx context.Context, hostID, agentTokenHash string) (Host, error) {
	h, hash, err := hostAndHash(ctx, s.readers, hostID)
	if err == nil && !sameHash(hash, agentTokenHash) {
		err = ErrNotFound
	}
	if err != nil {
		return Host{}, errorf(err, "identify host %s", hostID)
	}
	return h, nil
}

// hostAndHash reads a host and the hash of its agent token.
func hostAndHash(ctx context.Context, q querier, hostID string) (Host, string, error) {
	type row struct {
		host Host
		hash string
	}
	scan := func(sc scanner) (r row, err error) {
		r.host, err = scanHost(scanFunc(func(dest ...any) error { return sc.Scan(append(dest, &r.hash)...) }))
		return r, err
	}
	r, err := one(ctx, q, scan, "SELECT "+string(hostColumns)+", token_hash FROM hosts WHERE id = ?", hostID)
	return r.host, r.hash, err
}

// sameHash compares the stored hash of a token with another in constant time. An empty one is like no other.
func sameHash(stored, hash string) bool {
	return stored != "" && subtle.ConstantTimeCompare([]byte(stored), []byte(hash)) == 1
}

// scanFunc makes a scanner of a function.
type scanFunc func(dest ...any) error

// Scan implements scanner.
func (f scanFunc) Scan(dest ...any) error { return f(dest...) }

// Heartbeat records that a host lives and what its agent says of it, and clears LostAt. Free disk
// space is written only when it has moved enough to matter.
func (s *Store) Heartbeat(ctx context.Context, hostID string, u HostUpdate) (Host, error) {
	now := s.now()
	h, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (Host, error) {
		h, err := one(ctx, t, scanHost, selectHost+" WHERE id = ?", hostID)
		if err != nil {
			return h, err
		}
		h.apply(u)
		h.LastHeartbeatAt, h.LostAt = now, time.Time{}
		return h, execOne(ctx, t, hostColumns.update("hosts"), append(h.values(), h.ID)...)
	})
	return h, errorf(err, "record the heartbeat of host %s", hostID)
}

// Host returns one host. ErrNotFound when there is none.
func (s *Store) Host(ctx context.Context, id string) (Host, error) {
	h, err := one(ctx, s.readers, scanHost, selectHost+" WHERE id = ?", id)
	return h, errorf(err, "read host %s", id)
}

// Hosts returns all hosts by name.
func (s *Store) Hosts(ctx context.Context) ([]Host, error) {
	list, err := all(ctx, s.readers, scanHost, selectHost+" ORDER BY name")
	return list, errorf(err, "list hosts")
}

// SetHostDraining tells a host to empty, or no longer to. A draining host is cordoned, too.
func (s *Store) SetHostDraining(ctx context.Context, id string, draining bool) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		return execOne(ctx, t, "UPDATE hosts SET draining = ?, cordoned = cordoned OR ? WHERE id = ?", draining, draining, id)
	})
	return errorf(err, "drain host %s", id)
}

// SetHostCordoned keeps new runners from a host, or lets them in again, which also ends a drain.
func (s *Store) SetHostCordoned(ctx context.Context, id string, cordoned bool) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		return execOne(ctx, t, "UPDATE hosts SET cordoned = ?, draining = draining AND ? WHERE id = ?", cordoned, cordoned, id)
	})
	return errorf(err, "cordon host %s", id)
}

// MarkHostLost records that a host was given up on. LostAt of one lost already stays; the next
// heartbeat clears it. The host's runners are the caller's to fail.
func (s *Store) MarkHostLost(ctx context.Context, id string) error {
	now := s.now()
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		return execOne(ctx, t, "UPDATE hosts SET lost_at = CASE WHEN lost_at = 0 THEN ? ELSE lost_at END WHERE id = ?", micros(now), id)
	})
	return errorf(err, "mark host %s lost", id)
}

// DeleteHost deletes a host and its tasks, so that its agent's token is void. ErrConflict while
// it has live runners. Workloads of its finished runners count as gone: nobody can ask any more.
func (s *Store) DeleteHost(ctx context.Context, id string) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		if used, err := exists(ctx, t, "SELECT id FROM runners WHERE host_id = ? AND "+liveRunner+" LIMIT 1", id); err != nil {
			return err
		} else if used {
			return fmt.Errorf("%w: it has live runners; drain it first", ErrConflict)
		}
		if _, err := exec(ctx, t, "UPDATE runners SET cleaned = TRUE WHERE host_id = ?", id); err != nil {
			return err
		}
		return execOne(ctx, t, "DELETE FROM hosts WHERE id = ?", id)
	})
	return errorf(err, "delete host %s", id)
}
