package scheduler

import "time"

// The defaults of the settings. Other constants of the project are chosen against these, and the
// controller's tests hold the relations: the provision timeout outlasts the agent's create and is
// no longer than a create's lease; the longest backoff ends before the retention does, because
// the failures it is counted from are gone by then; the heartbeat timeout is three heartbeats.
const (
	DefaultProvisionTimeout = 20 * time.Minute
	FailedRetention         = 10 * time.Minute
	StartBackoff            = 10 * time.Second
	MaxStartBackoff         = 5 * time.Minute
	HeartbeatTimeout        = 90 * time.Second
)

// DiskDanger is how full a host's disk may be, in percent, until the host takes no new runner. Agents evict images well below it.
const DiskDanger = 95

// DefaultTunables are the settings of a fleet that set none: no lifetime, no budget.
func DefaultTunables() Tunables {
	return Tunables{
		ProvisionTimeout: DefaultProvisionTimeout,
		FailedRetention:  FailedRetention,
		StartBackoff:     StartBackoff,
		MaxStartBackoff:  MaxStartBackoff,
		HeartbeatTimeout: HeartbeatTimeout,
	}
}

// filled is t with the default in the place of every time that is not positive.
func (t Tunables) filled() Tunables {
	fill := func(d *time.Duration, or time.Duration) {
		if *d <= 0 {
			*d = or
		}
	}
	fill(&t.ProvisionTimeout, DefaultProvisionTimeout)
	fill(&t.FailedRetention, FailedRetention)
	fill(&t.StartBackoff, StartBackoff)
	fill(&t.MaxStartBackoff, MaxStartBackoff)
	fill(&t.HeartbeatTimeout, HeartbeatTimeout)
	return t
}
