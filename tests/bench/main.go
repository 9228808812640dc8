// Command bench measures what a user waits for and what the controller can take, and prints one JSON object as its last line:
// the stages of a start against plain `podman run`, scheduling decisions, webhook ingest against the disk's own fsync, fleets of many
// agents, and what those cost who follow events. It judges nothing: it exits 0 unless something could not be run. See docs/performance.md.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options of a run.
type options struct {
	only     []string
	jobs     int
	each     time.Duration // one timed step
	image    string
	profiles string
	fleets   []fleetSize
	scale    time.Duration // each size of fleet, once it has settled
	progress io.Writer
	log      *slog.Logger
}

// report is the last line.
type report struct {
	Machine machine       `json:"machine"`
	Demo    *demoReport   `json:"demo,omitempty"`
	Decide  []decideRow   `json:"decide,omitempty"`
	Ingest  *ingestReport `json:"ingest,omitempty"`
	Scale   *scaleReport  `json:"scale,omitempty"`
	Events  *eventsReport `json:"events,omitempty"`
	Goals   []goal        `json:"goals"`
}

// goal is what was aimed at, and whether this run was there.
type goal struct {
	What     string  `json:"what"`
	AtMost   float64 `json:"at_most"`
	Measured float64 `json:"measured"`
	Met      bool    `json:"met"`
}

func newGoal(what string, atMost, measured float64) goal {
	return goal{What: what, AtMost: atMost, Measured: measured, Met: measured <= atMost}
}

// parts of the benchmark, in their order.
var parts = []string{"demo", "decide", "ingest", "scale", "events"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if len(os.Args) > 1 && os.Args[1] == fleetControllerArg {
		err = fleetControllerMain(ctx, os.Args[2:])
	} else {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, progress io.Writer) error {
	if len(args) == 2 && args[0] == eventsServer {
		return serveEvents(ctx, args[1], os.Stdin, out)
	}
	o, err := parse(args, progress)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	m, err := thisMachine(ctx)
	if err != nil {
		return err
	}
	r := report{Machine: m, Goals: []goal{}}
	for _, part := range o.only {
		fmt.Fprintf(progress, "== %s\n", part)
		if err := o.profiled(part, func() error { return r.measure(ctx, part, o) }); err != nil {
			return fmt.Errorf("cannot measure %s: %w", part, err)
		}
	}
	return json.NewEncoder(out).Encode(r)
}

func (r *report) measure(ctx context.Context, part string, o options) (err error) {
	var goals []goal
	switch part {
	case "demo":
		r.Demo, goals, err = measureDemo(ctx, o)
	case "decide":
		r.Decide, goals, err = measureDecide(ctx, o)
	case "ingest":
		r.Ingest, err = measureIngest(ctx, o)
	case "scale":
		r.Scale, goals, err = measureScale(ctx, o)
	case "events":
		r.Events, goals, err = measureEvents(ctx, o)
	}
	r.Goals = append(r.Goals, goals...)
	return err
}

func parse(args []string, progress io.Writer) (options, error) {
	o := options{progress: progress, log: slog.New(slog.NewTextHandler(progress, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	fl := flag.NewFlagSet("bench", flag.ContinueOnError)
	fl.SetOutput(progress)
	only := fl.String("only", strings.Join(parts, ","), "what to measure, separated by commas")
	fl.IntVar(&o.jobs, "jobs", 20, "jobs of the demo")
	seconds := fl.Float64("seconds", 3, "length of each timed step of decide and ingest")
	fleets := fl.String("agents", defaultSizes, "sizes of the fleets that scale measures")
	settled := fl.Float64("fleet-seconds", 30, "length of each size of fleet, after it has settled; a heartbeat comes every 30 s")
	fl.StringVar(&o.image, "image", "bin/demo-image.tar", "archive of the demo's runner image")
	fl.StringVar(&o.profiles, "profiles", "", "folder for a CPU profile of each part; none without it, since profiling costs time")
	if err := fl.Parse(args); err != nil {
		return o, err
	}
	o.only, o.each = strings.Split(*only, ","), time.Duration(*seconds*float64(time.Second))
	var err error
	if o.fleets, err = parseSizes(*fleets); err != nil {
		return o, err
	}
	o.scale = time.Duration(*settled * float64(time.Second))
	for _, p := range o.only {
		if !slices.Contains(parts, p) {
			return o, fmt.Errorf("there is no part %q: use %s", p, strings.Join(parts, ", "))
		}
	}
	if o.jobs < 1 || o.each <= 0 || o.scale <= 0 || fl.NArg() > 0 {
		return o, errors.New("-jobs, -seconds and -fleet-seconds must be above 0, and there are no arguments")
	}
	return o, nil
}
