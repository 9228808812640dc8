package store

import (
	"context"
	"fmt"
	"time"
)

// MachineChange carries what comes with a transition of a machine. Zero fields leave the row as it is.
type MachineChange struct {
	Message string
	By      string // the operator who asked for it; empty for what the fleet does by itself
	// Excused keeps a failure from counting against its provider.
	Excused bool
	// UnlessJoined refuses the move with ErrConflict when the machine has become a host.
	UnlessJoined bool
}

// TransitionMachine moves a machine along the allow-list and says whether its state changed. The same state again is legal and
// changes nothing. A move outside the list is ErrTransition and changes nothing. What must be true together with the state is
// written together with it:
//
//   - draining cordons and drains the machine's host, and going back to ready undoes that;
//   - deleting deletes the host, so that its agent's token is void; ErrConflict while it has live runners;
//   - quarantined and failed cordon the host, should there be one;
//   - whatever is no longer on its way to be a host has no join token any more;
//   - failed counts against the provider, ready clears its count.
//
// By itself, a machine drains only while its host has no live runner: ErrConflict otherwise. An operator drains at any time.
// Quarantined to deleted needs an operator.
func (s *Store) TransitionMachine(ctx context.Context, id string, to MachineState, c MachineChange) (Machine, bool, error) {
	changed := false
	m, err := s.changeMachine(ctx, id, "move to "+string(to), func(ctx context.Context, t *tx, m *Machine, now time.Time) (err error) {
		from := m.State
		if c.UnlessJoined && m.HostID != "" {
			return fmt.Errorf("%w: it has joined", ErrConflict)
		}
		if changed, err = m.move(to, c.Message, now); err != nil || !changed {
			return err
		}
		return m.moved(ctx, t, from, c, now)
	})
	return m, changed && err == nil, err
}

// ReleaseMachine has an operator take a machine's resource over: its row is deleted and nothing at the provider is touched. It is for
// quarantined machines, and for a delete that cannot be had, which goes through quarantine on the way.
func (s *Store) ReleaseMachine(ctx context.Context, id, by, message string) (Machine, error) {
	return s.changeMachine(ctx, id, "release", func(ctx context.Context, t *tx, m *Machine, now time.Time) error {
		c := MachineChange{Message: message, By: by}
		for _, to := range []MachineState{MachineQuarantined, MachineDeleted} {
			if to == MachineQuarantined && m.State != MachineDeleting && m.State != MachineQuarantined {
				return fmt.Errorf("%w: it is %s; only one that is quarantined or being deleted can be released", ErrTransition, m.State)
			}
			from := m.State
			if changed, err := m.move(to, message, now); err != nil {
				return err
			} else if !changed {
				continue
			}
			if err := m.moved(ctx, t, from, c, now); err != nil {
				return err
			}
		}
		return nil
	})
}

// move is the state machine itself: it checks the move and stamps the times.
func (m *Machine) move(to MachineState, message string, now time.Time) (changed bool, err error) {
	if !CanTransitionMachine(m.State, to) {
		return false, fmt.Errorf("%w: it is %s", ErrTransition, m.State)
	}
	if m.State == to {
		return false, nil
	}
	from := m.State
	m.State, m.StateAt = to, now
	set(&m.Message, message)
	switch to {
	case MachinePlanned: // where every machine begins; nothing leads back to it
	case MachineCreating:
		fill(&m.CreatingAt, now)
	case MachineStarting:
	case MachineBootstrapping:
		m.Operation, m.Doing = "", ""
		fill(&m.BuiltAt, now)
	case MachineEnrolling:
		fill(&m.BootedAt, now)
	case MachineReady:
		fill(&m.ReadyAt, now)
		m.IdleSince = now
	case MachineDraining:
	case MachineFailed, MachineDeleted:
		fill(&m.FinishedAt, now)
		if to == MachineDeleted {
			m.DeletedAt, m.Operation, m.Doing = now, "", ""
		}
	case MachineDeleting, MachineQuarantined:
		m.Operation, m.Doing = "", ""
	}
	if from == MachineDraining && to != MachineReady {
		m.IdleSince = time.Time{}
	}
	return true, nil
}

// moved writes what goes with a change of state.
func (m *Machine) moved(ctx context.Context, t *tx, from MachineState, c MachineChange, now time.Time) error {
	if !m.State.coming() {
		if err := voidToken(ctx, t, m.JoinTokenID); err != nil {
			return err
		}
	}
	switch m.State {
	case MachineDraining:
		return m.drain(ctx, t, c.By)
	case MachineReady:
		if from == MachineDraining {
			m.DrainedBy = ""
			_, err := exec(ctx, t, "UPDATE hosts SET draining = FALSE, cordoned = ? WHERE id = ?", m.WasCordoned, m.HostID)
			return err
		}
		_, err := exec(ctx, t, "UPDATE providers SET failure_streak = 0, failed_at = 0, held_until = 0, hold_reason = '' WHERE id = ?", m.ProviderID)
		return err
	case MachineFailed:
		if err := m.cordon(ctx, t); err != nil || c.Excused || c.By != "" {
			return err
		}
		_, err := exec(ctx, t, "UPDATE providers SET failure_streak = failure_streak + 1, failed_at = ? WHERE id = ?", micros(now), m.ProviderID)
		return err
	case MachineDeleting:
		return m.dropHost(ctx, t)
	case MachineQuarantined:
		return m.cordon(ctx, t)
	case MachineDeleted:
		if from != MachineQuarantined {
			return nil
		}
		if c.By == "" {
			return fmt.Errorf("%w: only an operator releases a machine from quarantine", ErrTransition)
		}
		m.ReleasedBy = c.By
	default:
	}
	return nil
}

// cordon keeps new runners from what is no host of ours any more.
func (m *Machine) cordon(ctx context.Context, t *tx) error {
	if m.HostID == "" {
		return nil
	}
	_, err := exec(ctx, t, "UPDATE hosts SET cordoned = TRUE WHERE id = ?", m.HostID)
	return err
}

func (m *Machine) drain(ctx context.Context, t *tx, by string) error {
	if by == "" {
		if used, err := m.used(ctx, t); err != nil {
			return err
		} else if used {
			return fmt.Errorf("%w: its host has live runners", ErrConflict)
		}
	}
	h, err := all(ctx, t, scanHost, selectHost+" WHERE id = ?", m.HostID)
	if err != nil || len(h) == 0 {
		return err
	}
	m.DrainedBy, m.WasCordoned = by, h[0].Cordoned
	return execOne(ctx, t, "UPDATE hosts SET draining = TRUE, cordoned = TRUE WHERE id = ?", m.HostID)
}

// dropHost deletes the host of a machine that goes, so that nothing can be placed on it and its agent's token is void.
func (m *Machine) dropHost(ctx context.Context, t *tx) error {
	if m.HostID == "" {
		return nil
	}
	if used, err := m.used(ctx, t); err != nil {
		return err
	} else if used {
		return fmt.Errorf("%w: its host has live runners; drain it first", ErrConflict)
	}
	if _, err := exec(ctx, t, "UPDATE runners SET cleaned = TRUE WHERE host_id = ?", m.HostID); err != nil {
		return err
	}
	_, err := exec(ctx, t, "DELETE FROM hosts WHERE id = ?", m.HostID)
	return err
}

func (m *Machine) used(ctx context.Context, t *tx) (bool, error) {
	if m.HostID == "" {
		return false, nil
	}
	return exists(ctx, t, "SELECT id FROM runners WHERE host_id = ? AND "+liveRunner+" LIMIT 1", m.HostID)
}

// AdoptMachine writes a row for a resource of ours that has none, since an operator said that it is to be deleted: failed, so that it
// goes the way of every other leftover. The ID, name and nonce are those of its mark. ErrConflict when there is such a row, or one of that identity.
func (s *Store) AdoptMachine(ctx context.Context, m Machine, by string) (Machine, error) {
	now := s.now()
	m.State, m.StateAt, m.CreatedAt, m.FinishedAt, m.DrainedBy = MachineFailed, now, now, now, by
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		_, err := exec(ctx, t, machineColumns.insert("machines"), m.values()...)
		return err
	})
	if err != nil {
		return Machine{}, errorf(err, "write a row for %s", m.ResourceID)
	}
	return m, nil
}

// joinMachine links a host to the machine whose join token it spends. A machine that was given up is no host any more.
func joinMachine(ctx context.Context, t *tx, jt JoinToken, name string) (*Machine, error) {
	owner, err := all(ctx, t, scanMachine, selectMachine+" WHERE join_token_id = ? AND join_token_id <> ''", jt.ID)
	if err != nil {
		return nil, err
	}
	if len(owner) > 0 {
		m := owner[0]
		if m.Name != name || !m.State.coming() && jt.UsedAt.IsZero() {
			return nil, ErrTokenSpent
		}
		return &m, nil
	}
	// Nobody else may take the name of a rented machine.
	taken, err := exists(ctx, t, "SELECT id FROM machines WHERE name = ? AND "+liveMachine, name)
	if err == nil && taken {
		err = fmt.Errorf("%w: the name %s is a rented machine's; give this host another one", ErrConflict, name)
	}
	return nil, err
}

// joinedAs records that a machine's guest is up and is a host.
func (m *Machine) joinedAs(ctx context.Context, t *tx, hostID string, now time.Time) error {
	before := *m
	m.HostID, m.JoinedAt = hostID, now
	fill(&m.BuiltAt, now) // its answer may come later than its guest
	fill(&m.BootedAt, now)
	return saveMachine(ctx, t, before, *m)
}
