package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"
)

// fleetController is a controller in a process of its own, so that its memory and CPU time are its alone.
type fleetController struct {
	cmd   *exec.Cmd
	stdin io.Closer // whose end ends it
	hello fleetHello

	mu      sync.Mutex
	arrived map[string]time.Time // tasks
}

// fleetControllerArg makes this program the controller.
const fleetControllerArg = "-fleet-controller"

func startFleetController(ctx context.Context, dir string, agents int, tls bool, profiles string) (*fleetController, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program: %w", err)
	}
	c := &fleetController{arrived: map[string]time.Time{}}
	c.cmd = exec.CommandContext(ctx, self, fleetControllerArg, dir, strconv.Itoa(agents), strconv.FormatBool(tls), profiles)
	c.cmd.Stderr = os.Stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("cannot start the controller: %w", err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("cannot start the controller: %w", err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start the controller: %w", err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &c.hello)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the controller did not start: %w", err), c.close())
	}
	return c, nil
}

func (c *fleetController) close() error {
	return errors.Join(c.stdin.Close(), c.cmd.Wait())
}

// note remembers when a task arrived.
func (c *fleetController) note(task string, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, twice := c.arrived[task]; !twice {
		c.arrived[task] = at
	}
}

// ask has somebody watch a runner's output for a moment, which writes a task for its host.
func (c *fleetController) ask(ctx context.Context, runner string) error {
	return c.control(ctx, http.MethodPost, "/probe?runner="+url.QueryEscape(runner), nil, nil)
}

// delays are those of the tasks that arrived. Both processes read the same clock.
func (c *fleetController) delays(ctx context.Context) ([]time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make([]string, 0, len(c.arrived))
	for id := range c.arrived {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var written []time.Time
	if err := c.control(ctx, http.MethodPost, "/written", ids, &written); err != nil {
		return nil, err
	}
	out := make([]time.Duration, len(ids))
	for i, id := range ids {
		out[i] = c.arrived[id].Sub(written[i])
	}
	return out, nil
}

// figures are the controller's own; collect has it collect its garbage first.
func (c *fleetController) figures(ctx context.Context, collect bool) (fleetFigures, error) {
	var f fleetFigures
	return f, c.control(ctx, http.MethodPost, "/figures?collect="+strconv.FormatBool(collect), nil, &f)
}

func (c *fleetController) control(ctx context.Context, method, path string, in, out any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.hello.Control+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("cannot ask the controller's process: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the controller's process answered %s: %s", resp.Status, body)
	}
	if err == nil && out != nil {
		err = json.Unmarshal(body, out)
	}
	return err
}
