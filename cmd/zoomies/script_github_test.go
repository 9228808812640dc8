package main

import (
	"context"
	"encoding/json"
	"os/exec"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	simgithub "github.com/zoomies-fleet/zoomies/sim/github"
)

// simulateGitHub starts a GitHub of the script's own with the organisation octo, and sets $GITHUB to its REST root.
func simulateGitHub(ts *testscript.TestScript, _ bool, _ []string) {
	gh, err := simgithub.New(simgithub.Options{})
	ts.Check(err)
	ts.Defer(func() { _ = gh.Close() })
	gh.AddInstallation("octo", "Organization")
	ts.Setenv("GITHUB", gh.URL())
}

// connects runs zoomies github connect with the arguments, and does in a browser what a person would, until the command has ended.
func connects(ts *testscript.TestScript, _ bool, args []string) {
	program, err := lookIn(ts.Getenv("PATH"), "zoomies")
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{"github", "connect", "--output", "json"}, args...)...)
	cmd.Env = []string{"HOME=" + ts.Getenv("HOME"), "XDG_CONFIG_HOME=" + ts.Getenv("XDG_CONFIG_HOME"), "ZOOMIES_DATA_DIR=" + ts.Getenv("DATA")}
	var errs strings.Builder
	cmd.Stderr = &errs
	pipe, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	out := json.NewDecoder(pipe)
	var start struct{ URL string }
	if err := out.Decode(&start); err != nil {
		_ = cmd.Wait()
		ts.Fatalf("the command printed no address: %v: %s", err, errs.String())
	}
	page, err := simgithub.Click(ctx, nil, start.URL)
	ts.Check(err)
	if !strings.Contains(page, "GitHub is connected") {
		ts.Fatalf("the flow ended with: %s", page)
	}
	var made []struct {
		Name    string
		Account string
	}
	err = out.Decode(&made)
	if waited := cmd.Wait(); err != nil || waited != nil {
		ts.Fatalf("the command ended with %v, and showed no installation (%v): %s", waited, err, errs.String())
	}
	if len(made) != 1 || made[0].Account != "octo" {
		ts.Fatalf("the command shows %+v", made)
	}
}
