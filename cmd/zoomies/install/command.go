package install

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/controller/config"
)

// InitCommand is `zoomies init`.
func InitCommand() *cobra.Command {
	var yes, dry bool
	var organization string
	flags := map[string]*string{}
	c := &cobra.Command{
		Use:   "init",
		Short: "Put a controller on this machine as a service",
		Long: "Asks five questions at most, checks the machine, and then makes a user, folders, settings and a systemd unit, and starts the\n" +
			"controller. While a check fails nothing is changed. Run it again with a newer binary to upgrade.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			given := map[string]string{}
			for name, value := range flags {
				if cmd.Flags().Changed(name) {
					given[name] = *value
				}
			}
			return runInit(cmd, given, yes, dry, organization)
		},
	}
	d := Defaults()
	fl := c.Flags()
	for _, q := range questions {
		flags[q.flag] = new(string)
	}
	fl.StringVar(flags["data-dir"], "data-dir", d.DataDir, "folder for the data")
	fl.StringVar(flags["listen"], "listen", d.Listen, "address to listen on; with TLS unless it is the loopback")
	fl.StringVar(flags["agent"], "agent", d.Backend, "what runs jobs on this machine: podman, docker, process, or none")
	fl.StringVar(flags["github"], "github", d.GitHub, "connect GitHub now or later")
	fl.StringVar(flags["boot"], "boot", yesNo(d.Boot), "start with the machine: yes or no")
	fl.StringVar(&organization, "organization", "", "with --github now: the organisation that gets the GitHub App (default: your own account)")
	fl.BoolVar(&yes, "yes", false, "ask nothing: what no flag says is as proposed")
	fl.BoolVar(&dry, "dry-run", false, "print the checks and the steps, and change nothing")
	return c
}

func runInit(cmd *cobra.Command, given map[string]string, yes, dry bool, organization string) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	m, installed, err := loadManifest(ManifestFile)
	if err != nil {
		return err
	}
	a, in := Defaults(), cmd.InOrStdin()
	if installed || exists(SettingsFile) {
		if a, err = present(a, m); err != nil {
			return err
		}
		if err := settled(a, given); err != nil {
			return err
		}
	}
	if installed || yes {
		in = nil // an upgrade asks nothing
	} else if f, ok := in.(*os.File); ok && !isatty.IsTerminal(f.Fd()) && !dry {
		return errors.New("cannot ask, since this is no terminal: use --yes, and flags for what is not as proposed")
	}
	if dry {
		in = nil
	}
	if a, err = answer(a, given, in, out); err != nil {
		return err
	}
	f, err := look(ctx, a, installed)
	if err != nil {
		return err
	}
	if bad := check(a, f, m); len(bad) > 0 {
		for _, b := range bad {
			fmt.Fprintln(out, "-", b)
		}
		if !dry {
			return errors.New("cannot install yet; nothing was changed")
		}
	}
	p := Install(a, f, m)
	if dry {
		show(out, p)
		return nil
	}
	h := &Hands{Out: out}
	if err := h.Do(ctx, p, true); err != nil {
		return err
	}
	return next(ctx, out, a, organization)
}

// settled refuses flags that say otherwise than the settings file, which init does not write again, and settings that no unit can be
// made for.
func settled(a Answers, given map[string]string) error {
	if !exists(SettingsFile) {
		return nil
	}
	for _, q := range questions[:3] { // the others are not in the file
		if text, again := given[q.flag]; again && text != q.get(a) {
			return fmt.Errorf("cannot use --%s: %s is there, says %s, and stays as it is; change it there", q.flag, SettingsFile, q.get(a))
		}
		if err := q.check(q.get(a)); err != nil {
			return fmt.Errorf("cannot use %s: %w", SettingsFile, err)
		}
	}
	return nil
}

// present are the answers of an earlier installation.
func present(a Answers, m Manifest) (Answers, error) {
	if m.DataDir != "" {
		a.DataDir, a.Backend = m.DataDir, m.Backend
	}
	if !exists(SettingsFile) {
		return a, nil
	}
	cfg, err := config.Load(config.LoadOptions{File: SettingsFile})
	if err != nil {
		return a, err
	}
	a.Listen, a.DataDir = cfg.Listen, cfg.DataDir
	switch {
	case !cfg.Agent.Embedded:
		a.Backend = "none"
	case m.Backend == "" && len(cfg.Agent.Backends) > 0:
		a.Backend = cfg.Agent.Backends[0]
	}
	return a, nil
}

// show prints a plan.
func show(out io.Writer, p Plan) {
	for i, s := range p.Steps {
		fmt.Fprintf(out, "%2d. %s\n", i+1, s.What)
		switch {
		case s.Run != nil:
			fmt.Fprintf(out, "      %s\n", strings.Join(s.Run, " "))
		case s.Write != nil:
			fmt.Fprintf(out, "      %s (mode %04o):\n        %s\n", s.Write.Path, s.Write.Mode, strings.ReplaceAll(strings.TrimRight(s.Write.Text, "\n"), "\n", "\n        "))
		case s.Remove != "":
			fmt.Fprintf(out, "      %s\n", s.Remove)
		}
	}
}

// next says where to go from here.
func next(ctx context.Context, out io.Writer, a Answers, organization string) error {
	url := address(a)
	fmt.Fprintf(out, "\nZoomies runs, at %s\n", url)
	fmt.Fprintf(out, "  become its first user:  sudo zoomies setup claim NAME\n  add another machine:    sudo zoomies join-token --host NAME\n"+
		"  see what it does:       journalctl -u %s\n  change its settings:    %s, then systemctl restart zoomies\n", UnitName, SettingsFile)
	if a.GitHub == "now" {
		return connectGitHub(ctx, out, a.DataDir+"/local.sock", url, organization)
	}
	fmt.Fprintln(out, "  connect GitHub:         see \"Connect GitHub\" in the documentation")
	return nil
}

// address is where browsers reach the controller.
func address(a Answers) string {
	c := config.Default()
	c.Listen = a.Listen
	if cfg, err := config.Load(config.LoadOptions{File: config.FindFile(SettingsFile)}); err == nil {
		c = cfg
	}
	if c.PublicURL != "" {
		return strings.TrimRight(c.PublicURL, "/")
	}
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return c.Listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		if name, err := os.Hostname(); err == nil {
			host = name
		}
	}
	if c.Serves() == config.NoTLS {
		return "http://" + net.JoinHostPort(host, port)
	}
	return "https://" + net.JoinHostPort(host, port)
}

// UninstallCommand is `zoomies uninstall`.
func UninstallCommand() *cobra.Command {
	var yes, dry, keep bool
	c := &cobra.Command{
		Use:   "uninstall",
		Short: "Take off this machine what init put there",
		Long: "Stops the controller, removes the containers of its runners, and then everything that `zoomies init` made and nothing else.\n" +
			"Jobs that run on this machine are lost.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runUninstall(cmd, yes, dry, keep) },
	}
	c.Flags().BoolVar(&keep, "keep-data", false, "keep the data folder, its owner and the settings, for a later init")
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&dry, "dry-run", false, "print the steps, and change nothing")
	return c
}

func runUninstall(cmd *cobra.Command, yes, dry, keep bool) error {
	out := cmd.OutOrStdout()
	m, installed, err := loadManifest(ManifestFile)
	switch {
	case err != nil:
		return err
	case !installed:
		return fmt.Errorf("cannot uninstall: there is no %s, so `zoomies init` has made nothing here", ManifestFile)
	case checkDataDir(m.DataDir) != nil:
		return fmt.Errorf("cannot uninstall: %s names %q as the data folder; nothing was changed", ManifestFile, m.DataDir)
	case os.Geteuid() != 0 && !dry:
		return errors.New("cannot uninstall: this changes the machine: run it as root, with sudo")
	}
	p := Uninstall(m, keep)
	if dry {
		show(out, p)
		return nil
	}
	if !yes {
		what := "This removes Zoomies with all its data, " + m.DataDir + " too, and ends its jobs."
		if keep {
			what = "This removes Zoomies and ends its jobs. Its data stays in " + m.DataDir + "."
		}
		fmt.Fprint(out, what+" Type yes to go on: ")
		if in := bufio.NewScanner(cmd.InOrStdin()); !in.Scan() || strings.TrimSpace(in.Text()) != "yes" {
			return errors.New("cannot uninstall without a yes; nothing was changed")
		}
	}
	return (&Hands{Out: out}).Do(cmd.Context(), p, keep)
}
