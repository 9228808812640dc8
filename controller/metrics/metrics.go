// Package metrics declares every metric of the controller in one table, from which the registry
// and the reference page come. It must never read the store.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Type of a metric.
type Type string

// The types.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Def declares a metric.
type Def struct {
	Name   string
	Type   Type
	Help   string
	Labels []string
}

// The names.
const (
	Jobs             = "zoomies_jobs"
	Runners          = "zoomies_runners"
	Hosts            = "zoomies_hosts"
	HostSlots        = "zoomies_host_slots"
	Stage            = "zoomies_stage_seconds"
	RunnersCreated   = "zoomies_runners_created_total"
	RunnersEnded     = "zoomies_runners_ended_total"
	JobsCompleted    = "zoomies_jobs_completed_total"
	Deliveries       = "zoomies_webhook_deliveries_total"
	TasksRequeued    = "zoomies_tasks_requeued_total"
	TasksDropped     = "zoomies_tasks_dropped_total"
	PoolBlocked      = "zoomies_pool_blocked"
	ReconcileSeconds = "zoomies_reconcile_seconds"
	GitHubErrors     = "zoomies_github_errors_total"
	GitHubHeld       = "zoomies_github_hold_seconds"
	OrphansReaped    = "zoomies_registrations_reaped_total"
	Problems         = "zoomies_problems"
	Machines         = "zoomies_machines"
	MachineStage     = "zoomies_machine_stage_seconds"
	MachinesFailed   = "zoomies_machines_failed_total"
	ProviderHeld     = "zoomies_provider_hold_seconds"
)

// Stages of a job's way, the values of the label "stage" of zoomies_stage_seconds.
const (
	StageQueuedToTask          = "queued_to_task"
	StageTaskToContainer       = "task_to_container"
	StageContainerToRegistered = "container_to_registered"
	StageQueuedToRunning       = "queued_to_running"
)

// Stages of a rented machine's way, the values of the label "stage" of zoomies_machine_stage_seconds.
const (
	StageDemandToPlanned  = "demand_to_planned"
	StagePlannedToCreated = "planned_to_created"
	StageCreatedToBooted  = "created_to_booted"
	StageBootedToJoined   = "booted_to_joined"
	StageJoinedToFirstJob = "joined_to_first_job"
)

// Table is every metric of the controller.
var Table = []Def{
	{Jobs, Gauge, "Jobs that are queued or in progress, by state.", []string{"state"}},
	{Runners, Gauge, "Runners that are not removed, by pool and state.", []string{"pool", "state"}},
	{Hosts, Gauge, "Hosts, by condition (healthy, unhealthy, lost, broken, cordoned, disk_full).", []string{"condition"}},
	{HostSlots, Gauge, "Runner slots of healthy hosts, by use (used, free).", []string{"use"}},
	{Stage, Histogram, "Seconds that a job spends in each stage on its way to a runner.", []string{"stage"}},
	{RunnersCreated, Counter, "Runner rows created, by pool.", []string{"pool"}},
	{RunnersEnded, Counter, "Runners that ended, by pool and final state.", []string{"pool", "state"}},
	{JobsCompleted, Counter, "Jobs that completed, by conclusion.", []string{"conclusion"}},
	{Deliveries, Counter, "Webhook deliveries, by outcome (applied, duplicate, ignored, refused, failed).", []string{"outcome"}},
	{TasksRequeued, Counter, "Tasks offered again because a lease ended, by kind.", []string{"kind"}},
	{TasksDropped, Counter, "Tasks given up after their last offer, by kind.", []string{"kind"}},
	{PoolBlocked, Gauge, "Runners that a pool wants and cannot have, by pool.", []string{"pool"}},
	{ReconcileSeconds, Histogram, "Seconds that a reconcile pass takes.", nil},
	{GitHubErrors, Counter, "Failed calls to GitHub, by class (limit, unauthorized, unknown, other).", []string{"class"}},
	{GitHubHeld, Gauge, "Seconds until GitHub lets an installation call again, by installation.", []string{"installation"}},
	{OrphansReaped, Counter, "Registrations at GitHub that no runner explained and that were deleted.", nil},
	{Machines, Gauge, "Rented machines that are not deleted, by provider and state.", []string{"provider", "state"}},
	{MachineStage, Histogram, "Seconds that a rented machine spends in each stage on its way to its first job.", []string{"stage"}},
	{MachinesFailed, Counter, "Rented machines that were given up before they were hosts, by provider.", []string{"provider"}},
	{ProviderHeld, Gauge, "Seconds until a provider that stands down after failures makes machines again, by provider.", []string{"provider"}},
	{Problems, Gauge, "Problems that stand now, by code.", []string{"code"}},
}

// Set is the metrics of one controller.
type Set struct {
	Registry *prometheus.Registry
	counters map[string]*prometheus.CounterVec
	gauges   map[string]*prometheus.GaugeVec
	histos   map[string]*prometheus.HistogramVec
}

// buckets cover a stage from a millisecond to twenty minutes.
var buckets = []float64{.001, .0025, .005, .01, .02, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1200}

// New registers the table in a registry of its own, with the Go runtime's and the process's.
func New() *Set {
	s := &Set{
		Registry: prometheus.NewRegistry(),
		counters: map[string]*prometheus.CounterVec{},
		gauges:   map[string]*prometheus.GaugeVec{},
		histos:   map[string]*prometheus.HistogramVec{},
	}
	s.Registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, d := range Table {
		var c prometheus.Collector
		switch d.Type {
		case Counter:
			v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.Labels)
			if len(d.Labels) == 0 {
				v.WithLabelValues()
			}
			s.counters[d.Name], c = v, v
		case Gauge:
			v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.Labels)
			s.gauges[d.Name], c = v, v
		case Histogram:
			v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.Name, Help: d.Help, Buckets: buckets}, d.Labels)
			if len(d.Labels) == 0 {
				v.WithLabelValues() // shown from the start, as zero
			}
			s.histos[d.Name], c = v, v
		}
		s.Registry.MustRegister(c)
	}
	return s
}

// Inc adds one to a counter of the table. An undeclared name panics: it is a fault in the code.
func (s *Set) Inc(name string, labels ...string) { s.counters[name].WithLabelValues(labels...).Inc() }

// Set sets a gauge of the table.
func (s *Set) Set(name string, v float64, labels ...string) {
	s.gauges[name].WithLabelValues(labels...).Set(v)
}

// Add adds to a gauge of the table.
func (s *Set) Add(name string, v float64, labels ...string) {
	s.gauges[name].WithLabelValues(labels...).Add(v)
}

// Reset forgets every series of a gauge, so that what is gone is not reported for ever.
func (s *Set) Reset(name string) { s.gauges[name].Reset() }

// Observe adds a duration to a histogram of the table. A negative one (two machines' clocks) counts as zero.
func (s *Set) Observe(name string, d time.Duration, labels ...string) {
	s.histos[name].WithLabelValues(labels...).Observe(max(0, d.Seconds()))
}
