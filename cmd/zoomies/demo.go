package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/cmd/zoomies/demo"
	"github.com/zoomies-fleet/zoomies/controller"
)

type demoFlags struct {
	jobs, capacity int
	exit, json     bool
	image, logFile string
}

func demoCommand() *cobra.Command {
	var f demoFlags
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run jobs in real containers against a simulated GitHub",
		Long: "Starts a controller with its embedded agent, a simulated GitHub and Podman, queues jobs, and shows each one move from the\n" +
			"queue into a fresh container and out again. Nothing of it touches GitHub or outlives the command.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runDemo(cmd, f) },
	}
	fl := c.Flags()
	fl.IntVar(&f.jobs, "jobs", 20, "how many jobs to queue")
	fl.IntVar(&f.capacity, "capacity", 0, "runners that the demo's host holds at once; 0 is one for each job, so that none waits for another to end")
	fl.BoolVar(&f.exit, "exit", false, "end when the jobs have; otherwise serve until Ctrl-C")
	fl.BoolVar(&f.json, "json", false, "print one JSON object as the last line, and nothing for a terminal")
	fl.StringVar(&f.image, "image", "", "archive of the runner image (default: demo-image.tar beside this program)")
	fl.StringVar(&f.logFile, "log", "", "file for the logs of all parts (default: warnings go to standard error)")
	return c
}

func runDemo(cmd *cobra.Command, f demoFlags) (err error) {
	if f.jobs < 1 || f.capacity < 0 {
		return errors.New("--jobs must be at least 1, and --capacity not negative")
	}
	if f.capacity == 0 {
		f.capacity = f.jobs
	}
	if f.image == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("cannot find this program's folder; give --image: %w", err)
		}
		f.image = filepath.Join(filepath.Dir(self), "demo-image.tar")
	}
	log, closeLog, err := demoLog(f.logFile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	dir, err := os.MkdirTemp("", "zoomies-demo-")
	if err != nil {
		return fmt.Errorf("cannot make a work folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	out := cmd.ErrOrStderr()
	fmt.Fprintln(out, "starting Podman, a controller and a simulated GitHub …")
	fleet, err := demo.Start(cmd.Context(), demo.Options{
		NodeOptions: demo.NodeOptions{Dir: dir, Capacity: f.capacity, Settings: controller.DefaultSettings(), Logger: log},
		ImageFile:   f.image, MaxPool: f.capacity,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fleet.Close()) }()
	describe(out, fleet)
	report, err := demo.RunJobs(cmd.Context(), fleet, f.jobs, progress(out, f.json))
	if !f.json {
		summary(out, report)
	}
	if err == nil && !f.exit {
		fmt.Fprintln(out, "still serving; press Ctrl-C to stop and put everything away")
		<-cmd.Context().Done()
	}
	if f.json {
		err = errors.Join(err, json.NewEncoder(cmd.OutOrStdout()).Encode(report))
	}
	if err != nil {
		return err
	}
	if !report.OK() {
		return exitError{2, errors.New("a job did not finish, or something was left behind: see the report")}
	}
	return nil
}

func demoLog(file string) (*slog.Logger, func() error, error) {
	if file == "" {
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), func() error { return nil }, nil
	}
	w, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open the log file: %w", err)
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug})), w.Close, nil
}

func progress(w io.Writer, plain bool) demo.Progress {
	if f, ok := w.(*os.File); ok && !plain && isatty.IsTerminal(f.Fd()) {
		return demo.NewLive(w)
	}
	return &demo.Lines{W: w}
}

func describe(w io.Writer, f *demo.Fleet) {
	fmt.Fprintf(w, "controller   %s   (health %s/healthz, metrics %s/metrics, webhooks %s/webhooks/github)\n", f.URL(), f.URL(), f.URL(), f.URL())
	fmt.Fprintf(w, "github       %s   (simulated)\n", f.GitHub.URL())
	fmt.Fprintf(w, "engine       podman, its own storage, thrown away at the end\n\n")
}

func summary(w io.Writer, r demo.Report) {
	fmt.Fprintf(w, "\n%d of %d jobs completed, %d failed; left behind: %d runners, %d containers, %d registrations\n",
		r.Completed, r.Jobs, r.Failed, r.RunnersLeft, r.ContainersLeft, r.RegistrationsLeft)
	row := func(what string, s demo.Spread) {
		fmt.Fprintf(w, "  %-26s %8.1f ms   p95 %8.1f ms\n", what, s.P50, s.P95)
	}
	row("queued → task written", r.Stages["queued_to_task"])
	row("task → container", r.Stages["task_to_container"])
	row("container → registered", r.Stages["container_to_registered"])
	row("queued → running", r.Stages["queued_to_running"])
	row("plain podman run", r.PodmanRun)
}
