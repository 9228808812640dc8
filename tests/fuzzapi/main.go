package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzzapi:", err)
		os.Exit(1)
	}
}

// errFound says that the API has faults, which were printed.
var errFound = errors.New("the API has faults, see above")

func command(ctx context.Context, args []string, out, progress io.Writer) error {
	fl := flag.NewFlagSet("fuzzapi", flag.ContinueOnError)
	fl.SetOutput(progress)
	requests := fl.Int("requests", 50_000, "how many to send")
	seed := fl.Uint64("seed", 1, "the same seed makes the same requests, but for IDs and times")
	verbose := fl.Bool("v", false, "print the statuses of every operation")
	why := fl.String("why", "", "an operation whose refusals are printed, to see why it is never carried out")
	if err := fl.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	r, err := run(ctx, *seed, *requests, *why, func(f finding) { fmt.Fprintln(progress, f) })
	if err != nil {
		return fmt.Errorf("cannot try the API with seed %d: %w", *seed, err)
	}
	if *verbose {
		r.print(progress)
	}
	missed := r.missed()
	if len(missed) > 0 {
		fmt.Fprintf(progress, "seed %d: never carried out: %s\n", *seed, strings.Join(missed, ", "))
	}
	if err := json.NewEncoder(out).Encode(r.result); err != nil {
		return err
	}
	if r.Status5xx > 0 || r.Leaks > 0 || len(missed) > 0 {
		return errFound
	}
	return nil
}

// result is the last line.
type result struct {
	Requests  int `json:"requests"`
	Status5xx int `json:"status_5xx"`
	Leaks     int `json:"leaks"`
}

// report is what a run found.
type report struct {
	result
	statuses map[string]map[int]int // by operation
	heard    int                    // bytes of events
}

// missed are the operations that no request carried out.
func (r report) missed() (out []string) {
	for id, counts := range r.statuses {
		ok := false
		for status := range counts {
			ok = ok || status >= 200 && status < 400
		}
		if !ok {
			out = append(out, id)
		}
	}
	if r.heard == 0 {
		out = append(out, "an event of watch-events")
	}
	slices.Sort(out)
	return out
}

func (r report) print(w io.Writer) {
	ids := make([]string, 0, len(r.statuses))
	for id := range r.statuses {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		fmt.Fprintf(w, "%-24s %v\n", id, r.statuses[id])
	}
	fmt.Fprintf(w, "%d bytes of events\n", r.heard)
}

// finding is a fault, with what is needed to see it again.
type finding struct {
	seed    uint64
	request int
	what    string
	who     string
	call    call
	answer  string
}

// String tells it without ends that no terminal can hold.
func (f finding) String() string {
	return fmt.Sprintf("seed %d, request %d: %s\n  as %s: %s %.300s %v\n  body: %.1500s\n  answer: %.1500s",
		f.seed, f.request, f.what, f.who, f.call.op.Method, f.call.path, f.call.headers, f.call.body, f.answer)
}
