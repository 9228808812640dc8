package store

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"
)

const machineColumns columns = `id, provider_id, name, state, state_at, message, reason, shape, image, resource_id, zone, nonce, operation, doing,
	attempts, pool_id, demand_at, join_token_id, host_id, drained_by, was_cordoned, settled, created_at, creating_at, built_at, booted_at,
	joined_at, ready_at, first_job_at, idle_since, proved_at, finished_at, deleted_at, released_by`

const (
	selectMachine = "SELECT " + string(machineColumns) + " FROM machines"
	// liveMachine is the condition that the index of live machines serves.
	liveMachine        = "state <> 'deleted'"
	selectLiveMachines = selectMachine + " WHERE " + liveMachine + " ORDER BY created_at, id"
	// unprovedMachine is a live machine with an identity of which the provider has said nothing since a time.
	unprovedMachine = liveMachine + " AND state <> 'quarantined' AND resource_id <> '' AND proved_at <= ?"
)

func (m *Machine) values() []any {
	return []any{m.ID, m.ProviderID, m.Name, string(m.State), micros(m.StateAt), m.Message, m.Reason, jsonText(m.Shape), jsonText(m.Image), m.ResourceID,
		m.Zone, m.Nonce, m.Operation, m.Doing, m.Attempts, m.PoolID, micros(m.DemandAt), m.JoinTokenID, m.HostID, m.DrainedBy, m.WasCordoned, m.Settled,
		micros(m.CreatedAt), micros(m.CreatingAt), micros(m.BuiltAt), micros(m.BootedAt), micros(m.JoinedAt), micros(m.ReadyAt), micros(m.FirstJobAt),
		micros(m.IdleSince), micros(m.ProvedAt), micros(m.FinishedAt), micros(m.DeletedAt), m.ReleasedBy}
}

func scanMachine(row scanner) (m Machine, err error) {
	err = row.Scan(&m.ID, &m.ProviderID, &m.Name, &m.State, intoTime(&m.StateAt), &m.Message, &m.Reason, intoJSON(&m.Shape), intoJSON(&m.Image), &m.ResourceID,
		&m.Zone, &m.Nonce, &m.Operation, &m.Doing, &m.Attempts, &m.PoolID, intoTime(&m.DemandAt), &m.JoinTokenID, &m.HostID, &m.DrainedBy, &m.WasCordoned, &m.Settled,
		intoTime(&m.CreatedAt), intoTime(&m.CreatingAt), intoTime(&m.BuiltAt), intoTime(&m.BootedAt), intoTime(&m.JoinedAt), intoTime(&m.ReadyAt), intoTime(&m.FirstJobAt),
		intoTime(&m.IdleSince), intoTime(&m.ProvedAt), intoTime(&m.FinishedAt), intoTime(&m.DeletedAt), &m.ReleasedBy)
	return m, err
}

// PlanMachine writes the row of a machine that is to be made: planned, with an ID and a nonce of its own unless it has them, and no
// identity yet. most is how many machines the whole fleet may have; that and the provider's own limit are asked for again in the
// write: ErrConflict when either is reached, the provider is paused, fenced, disabled or gone, or the name is taken.
func (s *Store) PlanMachine(ctx context.Context, m Machine, most int) (Machine, error) {
	if m.ID == "" {
		m.ID = NewID(idMachine)
	}
	if m.Nonce == "" {
		m.Nonce = NewID("") + NewID("")
	}
	now := s.now()
	m.State, m.StateAt, m.CreatedAt, m.DemandAt = MachinePlanned, now, now, stamp(m.DemandAt)
	m.Message = m.Reason
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		p, err := one(ctx, t, s.scanProvider, selectProvider+" WHERE id = ?", m.ProviderID)
		if err != nil {
			return err
		}
		all, own, err := countMachines(ctx, t, p.ID)
		switch {
		case err != nil:
			return err
		case !p.Enabled, !p.PausedAt.IsZero(), !p.FencedAt.IsZero():
			return fmt.Errorf("%w: provider %s is disabled, paused or fenced", ErrConflict, p.Name)
		case own >= p.MaxMachines, all >= most:
			return fmt.Errorf("%w: %d machines of provider %s and %d in all are as many as allowed", ErrConflict, own, p.Name, all)
		}
		_, err = exec(ctx, t, machineColumns.insert("machines"), m.values()...)
		return err
	})
	if err != nil {
		return Machine{}, errorf(err, "plan machine %q", m.Name)
	}
	return m, nil
}

// countMachines counts the live machines, all of them and a provider's own.
func countMachines(ctx context.Context, q querier, providerID string) (int, int, error) {
	scan := func(row scanner) (n [2]int, err error) { return n, row.Scan(&n[0], &n[1]) }
	n, err := one(ctx, q, scan, "SELECT COUNT(*), COALESCE(SUM(CASE WHEN provider_id = ? THEN 1 ELSE 0 END), 0) FROM machines WHERE "+liveMachine, providerID)
	return n[0], n[1], err
}

// Machine returns one machine. ErrNotFound when there is none.
func (s *Store) Machine(ctx context.Context, id string) (Machine, error) {
	m, err := one(ctx, s.readers, scanMachine, selectMachine+" WHERE id = ?", id)
	return m, errorf(err, "read machine %s", id)
}

// MachineByName returns the machine of that name. ErrNotFound when there is none.
func (s *Store) MachineByName(ctx context.Context, name string) (Machine, error) {
	m, err := one(ctx, s.readers, scanMachine, selectMachine+" WHERE name = ?", name)
	return m, errorf(err, "read machine %q", name)
}

// MachineFilter selects machines. Zero fields select all.
type MachineFilter struct {
	Live       bool // not deleted
	ProviderID string
	Limit      int
}

func (f MachineFilter) query() (string, []any) {
	var w where
	if f.Live {
		w.add(liveMachine)
	}
	if f.ProviderID != "" {
		w.add("provider_id = ?", f.ProviderID)
	}
	return selectMachine + w.String() + " ORDER BY created_at, id" + limit(f.Limit), w.args
}

// Machines returns machines by CreatedAt, then ID.
func (s *Store) Machines(ctx context.Context, f MachineFilter) ([]Machine, error) {
	query, args := f.query()
	list, err := all(ctx, s.readers, scanMachine, query, args...)
	return list, errorf(err, "list machines")
}

const selectTaken = "SELECT resource_id, zone FROM machines WHERE provider_id = ? AND resource_id <> '' AND (state <> 'deleted' OR deleted_at > ?)"

// Identity is where a machine is, or was.
type Identity struct{ ResourceID, Zone string }

// TakenIdentities returns those that no new machine of a provider may be given: of its live machines, and of those deleted since a time.
func (s *Store) TakenIdentities(ctx context.Context, providerID string, since time.Time) ([]Identity, error) {
	scan := func(row scanner) (id Identity, err error) { return id, row.Scan(&id.ResourceID, &id.Zone) }
	list, err := all(ctx, s.readers, scan, selectTaken, providerID, micros(since))
	return list, errorf(err, "list the identities of provider %s that are taken", providerID)
}

// IdentifyMachine writes down the identity that was chosen for a planned machine and moves it to creating. Only then may anything be
// made. ErrConflict when another live machine has that identity, ErrTransition when the machine is not planned any more.
func (s *Store) IdentifyMachine(ctx context.Context, id string, at Identity, message string) (Machine, error) {
	if at.ResourceID == "" {
		return Machine{}, errors.New("cannot identify a machine: the identity is empty")
	}
	return s.changeMachine(ctx, id, "identify", func(_ context.Context, _ *tx, m *Machine, now time.Time) error {
		if m.State != MachinePlanned {
			return fmt.Errorf("%w: it is %s", ErrTransition, m.State)
		}
		m.ResourceID, m.Zone = at.ResourceID, at.Zone
		_, err := m.move(MachineCreating, message, now)
		return err
	})
}

// MachineProgress is what a step at the provider came to. Fields that are nil or zero leave the row as it is.
type MachineProgress struct {
	Operation *string // under way now; empty for none
	Doing     string
	Attempt   bool   // one more step towards its creation is asked for
	Zone      string // where it was found
	Proved    bool   // the provider said just now what is, or is not, under its identity
	Settled   bool
	Booted    bool      // its guest was heard from
	FirstJob  time.Time // when its host was first busy
}

// NoteMachine records progress without a change of state. ErrTransition when the machine is not in that state any more: what was
// seen is of another time.
func (s *Store) NoteMachine(ctx context.Context, id string, in MachineState, p MachineProgress) (Machine, error) {
	return s.changeMachine(ctx, id, "update", func(_ context.Context, _ *tx, m *Machine, now time.Time) error {
		if m.State != in {
			return fmt.Errorf("%w: it is %s", ErrTransition, m.State)
		}
		if p.Operation != nil {
			m.Operation = *p.Operation
		}
		if p.Attempt {
			m.Attempts++
		}
		if p.Proved {
			m.ProvedAt = now
		}
		if p.Booted {
			fill(&m.BootedAt, now)
		}
		m.Settled = m.Settled || p.Settled
		fill(&m.FirstJobAt, stamp(p.FirstJob))
		set(&m.Doing, p.Doing)
		set(&m.Zone, p.Zone)
		return nil
	})
}

const selectFirstBusy = "SELECT busy_at FROM runners WHERE created_at >= ? AND host_id = ? AND busy_at > 0 ORDER BY created_at, id LIMIT 1"

// FirstBusy is when the first of a host's runners that were created since a time, and had a job, got it; zero when none has.
func (s *Store) FirstBusy(ctx context.Context, hostID string, since time.Time) (time.Time, error) {
	scan := func(row scanner) (at time.Time, err error) { return at, row.Scan(intoTime(&at)) }
	list, err := all(ctx, s.readers, scan, selectFirstBusy, micros(since), hostID)
	if err != nil || len(list) == 0 {
		return time.Time{}, errorf(err, "read the first job of host %s", hostID)
	}
	return list[0], nil
}

// SetMachineIdle starts a machine's idle clock, unless it runs, or stops it.
func (s *Store) SetMachineIdle(ctx context.Context, id string, idle bool) error {
	_, err := s.changeMachine(ctx, id, "update", func(_ context.Context, _ *tx, m *Machine, now time.Time) error {
		if !idle {
			m.IdleSince = time.Time{}
			return nil
		}
		fill(&m.IdleSince, now)
		return nil
	})
	return err
}

// SetMachineToken gives a machine that is being made its join token, which admits only its name. The token that it had before, if
// nobody spent it, is void. ErrTransition when the machine is not being made any more.
func (s *Store) SetMachineToken(ctx context.Context, id string, hash string, ends time.Time) (JoinToken, error) {
	jt := JoinToken{ID: NewID(idJoinToken), Hash: hash, ExpiresAt: stamp(ends)}
	_, err := s.changeMachine(ctx, id, "give a join token to", func(ctx context.Context, t *tx, m *Machine, now time.Time) error {
		if m.State != MachineCreating && m.State != MachineStarting || m.HostID != "" {
			return fmt.Errorf("%w: it is %s", ErrTransition, m.State)
		}
		if hash == "" || !jt.ExpiresAt.After(now) {
			return errors.New("a join token needs a hash and an end in the future")
		}
		if err := voidToken(ctx, t, m.JoinTokenID); err != nil {
			return err
		}
		jt.HostName, jt.CreatedAt, m.JoinTokenID = m.Name, now, jt.ID
		_, err := exec(ctx, t, joinTokenColumns.insert("join_tokens"), jt.ID, jt.Hash, jt.HostName, false, micros(jt.ExpiresAt), int64(0), "", micros(now))
		return err
	})
	return jt, err
}

// voidToken takes back a join token that nobody has spent.
func voidToken(ctx context.Context, t *tx, id string) error {
	if id == "" {
		return nil
	}
	_, err := exec(ctx, t, "DELETE FROM join_tokens WHERE id = ? AND used_at = 0", id)
	return err
}

// changeMachine has f change a machine's row, and writes it if it is another then.
func (s *Store) changeMachine(ctx context.Context, id, what string, f func(context.Context, *tx, *Machine, time.Time) error) (Machine, error) {
	now := s.now()
	m, err := inWrite(ctx, s, func(ctx context.Context, t *tx) (Machine, error) {
		m, err := one(ctx, t, scanMachine, selectMachine+" WHERE id = ?", id)
		if err != nil {
			return m, err
		}
		before := m
		if err := f(ctx, t, &m, now); err != nil {
			return m, err
		}
		return m, saveMachine(ctx, t, before, m)
	})
	return m, errorf(err, "%s machine %s", what, id)
}

// saveMachine writes a row that has changed.
func saveMachine(ctx context.Context, t *tx, before, m Machine) error {
	if reflect.DeepEqual(before, m) {
		return nil
	}
	return execOne(ctx, t, machineColumns.update("machines"), append(m.values(), m.ID)...)
}

// set takes over a word that is said.
func set(field *string, said string) {
	if said != "" {
		*field = said
	}
}
