package demo

import (
	"math"
	"slices"
	"time"
)

// Report is the demo's last line.
type Report struct {
	Jobs              int               `json:"jobs"`
	Completed         int               `json:"completed"`
	Failed            int               `json:"failed"`
	RunnersLeft       int               `json:"runners_left"`
	ContainersLeft    int               `json:"containers_left"`
	RegistrationsLeft int               `json:"registrations_left"`
	Stages            map[string]Spread `json:"stages_ms"`
	PodmanRun         Spread            `json:"podman_run_ms"`
}

// OK says whether every job finished well and nothing is left behind.
func (r Report) OK() bool {
	return r.Completed == r.Jobs && r.Failed == 0 && r.RunnersLeft == 0 && r.ContainersLeft == 0 && r.RegistrationsLeft == 0
}

// Spread is the median and the 95th percentile of some durations, in milliseconds.
type Spread struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	N   int     `json:"n"`
}

func spread(ds []time.Duration) Spread {
	if len(ds) == 0 {
		return Spread{}
	}
	s := slices.Sorted(slices.Values(ds))
	at := func(q float64) float64 {
		i := max(0, int(math.Ceil(q*float64(len(s))))-1) // nearest rank
		return float64(s[i].Microseconds()) / 1000
	}
	return Spread{P50: at(0.50), P95: at(0.95), N: len(s)}
}

// The stages of the report, in the order of a job's way.
var stages = []string{"queued_to_task", "task_to_container", "container_to_registered", "queued_to_running"}
