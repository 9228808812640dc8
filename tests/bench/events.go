package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	followers     = 1000
	followersEach = 50  // of one token
	eventChanges  = 100 // whose way to everybody is measured
	eventsGoalMB  = 100
)

// eventsReport says what following events costs. The server is a process of its own, over TCP.
type eventsReport struct {
	Followers    int     `json:"followers"`
	BeforeMB     float64 `json:"rss_before_mb"` // of the server, with one follower
	AfterMB      float64 `json:"rss_after_mb"`  // with all of them, idle
	CostMB       float64 `json:"cost_mb"`
	EachKB       float64 `json:"cost_each_kb"`
	ToFollower   spread  `json:"change_to_follower_ms"` // from the moment before a change is asked for, to each follower
	ToTheLast    spread  `json:"change_to_last_follower_ms"`
	CPUPerFrame  float64 `json:"cpu_us_per_frame"` // of the server, for each frame that it sent
	FramesInAll  int     `json:"frames"`
	ServerThread int     `json:"server_threads"`
}

func measureEvents(ctx context.Context, o options) (r *eventsReport, goals []goal, err error) {
	dir, err := os.MkdirTemp("", "zoomies-bench-*")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s, err := startEventsServer(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	r = &eventsReport{Followers: followers}
	arrived := make(chan time.Time, followers)
	if err := s.follow(ctx, 0, arrived); err != nil {
		return nil, nil, err
	}
	if _, err := s.change(1, arrived); err != nil { // what is made once is made
		return nil, nil, err
	}
	if r.BeforeMB, _, err = s.memory(); err != nil {
		return nil, nil, err
	}
	for i := 1; i < followers; i++ {
		if err := s.follow(ctx, i, arrived); err != nil {
			return nil, nil, err
		}
	}
	select { // idle, as they are most of the time
	case <-time.After(o.each):
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if r.AfterMB, r.ServerThread, err = s.memory(); err != nil {
		return nil, nil, err
	}
	r.CostMB = round(r.AfterMB-r.BeforeMB, 1)
	r.EachKB = round(1000*(r.AfterMB-r.BeforeMB)/(followers-1), 1)
	if err := s.spreadOut(r, arrived); err != nil {
		return nil, nil, err
	}
	return r, []goal{newGoal(fmt.Sprintf("MB of memory for %d idle followers of events", followers), eventsGoalMB, r.CostMB)}, nil
}

// spreadOut measures the way of changes to everybody.
func (s *eventsChild) spreadOut(r *eventsReport, arrived chan time.Time) error {
	before, err := s.cpu()
	if err != nil {
		return err
	}
	var each, last []time.Duration
	for range eventChanges {
		took, err := s.change(followers, arrived)
		if err != nil {
			return err
		}
		each = append(each, took...)
		longest := took[0]
		for _, d := range took {
			longest = max(longest, d)
		}
		last = append(last, longest)
	}
	after, err := s.cpu()
	if err != nil {
		return err
	}
	r.ToFollower, r.ToTheLast, r.FramesInAll = spreadOf(each), spreadOf(last), eventChanges*followers
	r.CPUPerFrame = round(float64((after-before).Microseconds())/float64(r.FramesInAll), 1)
	return nil
}

// eventsChild is the server.
type eventsChild struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	at   serving
	open sync.WaitGroup
	ends []io.Closer
}

func startEventsServer(ctx context.Context, dir string) (*eventsChild, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &eventsChild{cmd: exec.CommandContext(ctx, self, eventsServer, dir)}
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewDecoder(out).Decode(&c.at); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot read where the server listens: %w", err), c.stop())
	}
	return c, nil
}

func (s *eventsChild) stop() error {
	_ = s.in.Close()
	err := s.cmd.Wait()
	for _, c := range s.ends {
		_ = c.Close()
	}
	s.open.Wait()
	return err
}

// follow opens a stream, and tells when each frame of a pool arrives.
func (s *eventsChild) follow(ctx context.Context, i int, arrived chan<- time.Time) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.at.Address)
	if err != nil {
		return err
	}
	s.ends = append(s.ends, c)
	if _, err := fmt.Fprintf(c, "GET /api/v1/events HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n\r\n", s.at.Tokens[i/followersEach]); err != nil {
		return err
	}
	lines := bufio.NewReader(c)
	for {
		line, err := lines.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("cannot follow events: %w", err)
		}
		if bytes.HasPrefix(line, []byte("event: hello")) {
			break
		}
	}
	s.open.Go(func() {
		for {
			line, err := lines.ReadSlice('\n')
			if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
				return
			}
			if bytes.HasPrefix(line, []byte("event: pool.updated")) {
				arrived <- time.Now()
			}
		}
	})
	return nil
}

// change has a pool changed, and says how long each of n followers waited for it.
func (s *eventsChild) change(n int, arrived <-chan time.Time) ([]time.Duration, error) {
	began := time.Now()
	if _, err := io.WriteString(s.in, "change\n"); err != nil {
		return nil, err
	}
	limit := time.After(time.Minute)
	var took []time.Duration
	for len(took) < n {
		select {
		case at := <-arrived:
			took = append(took, at.Sub(began))
		case <-limit:
			return nil, fmt.Errorf("only %d of %d followers were told of a change", len(took), n)
		}
	}
	return took, nil
}

// memory is the server's resident memory in MB, and its threads.
func (s *eventsChild) memory() (mb float64, threads int, err error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		switch {
		case len(f) > 1 && f[0] == "VmRSS:":
			kb, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				return 0, 0, err
			}
			mb = round(kb*1024/1e6, 1)
		case len(f) > 1 && f[0] == "Threads:":
			threads, _ = strconv.Atoi(f[1])
		}
	}
	return mb, threads, nil
}

// clockTick is the kernel's unit of CPU times in /proc.
const clockTick = 10 * time.Millisecond

// cpu is what the server has used.
func (s *eventsChild) cpu() (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0, errors.New("cannot read the server's CPU time")
	}
	var sum time.Duration
	for _, text := range f[11:13] {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(n) * clockTick
	}
	return sum, nil
}
