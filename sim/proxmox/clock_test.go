package proxmox

import (
	"context"
	"crypto/tls"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestTwentyMinutesTakeMilliseconds: time is simulated, whoever waits.
func TestTwentyMinutesTakeMilliseconds(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Driver: NullDriver{Deaf: true}})
	r.must(r.Create("pve1", 200, nil))
	r.must(r.Start(200))
	began := time.Now()
	before := r.clock.Now()
	r.want("VM quit/powerdown failed - got timeout", "POST", q+"/200/status/shutdown", "timeout=1200")
	if took := r.clock.Now().Sub(before); took < 20*time.Minute {
		t.Errorf("only %v went by", took)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("that took %v", took)
	}
}

// TestAJoinedClientHoldsTheClock: nothing goes on while it works, and everything does while it sleeps.
func TestAJoinedClientHoldsTheClock(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	c := r.clock.Join()
	upid := r.do("POST", q, "vmid=200&scsi0=local:1").text()
	for range 5 {
		if row := r.do("GET", "/nodes/pve1/tasks/"+upid+"/status", "").row(); row["status"] != "running" {
			t.Fatalf("it is %v", row)
		}
	}
	if err := c.Sleep(t.Context(), 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if exit, _ := r.Exit(upid); exit != "OK" {
		t.Errorf("after five seconds it is %q", exit)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c.Sleep(ctx, time.Hour) == nil {
		t.Error("a sleep outlives its context")
	}
	c.Leave()
	if r.clock.Sleeping() != 0 {
		t.Error("somebody still sleeps")
	}
}

// TestAManualClock moves only by hand, and wakes in order.
func TestAManualClock(t *testing.T) {
	t.Parallel()
	v := NewManual(epoch)
	var mu sync.Mutex
	var woken []int
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			if v.Sleep(t.Context(), time.Duration(i+1)*time.Minute) == nil {
				mu.Lock()
				woken = append(woken, i)
				mu.Unlock()
			}
		})
	}
	for v.Sleeping() < 3 {
		runtime.Gosched() // they are on their way to it
	}
	v.Advance(90 * time.Second)
	if !v.Now().Equal(epoch.Add(90*time.Second)) || v.Sleeping() != 2 {
		t.Errorf("it is %v, %d sleep", v.Now(), v.Sleeping())
	}
	v.Advance(time.Hour)
	wg.Wait()
	if len(woken) != 3 {
		t.Errorf("woken: %v", woken)
	}
}

// TestInABubble: over Pipes the real clock is the bubble's, and everything of a client's is in the same time.
func TestInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pipes := NewPipes()
		s, err := New(Options{Listener: pipes})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{Server: s, Console: s.Console(), t: t}
		transport := &http.Transport{
			DialContext:     pipes.Dial,
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
		}
		r.http = &http.Client{Transport: transport}
		defer func() {
			transport.CloseIdleConnections()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		r.root = r.AddToken(rootUser, "full", false)
		began := time.Now()
		upid := r.do("POST", q, "vmid=200&scsi0=local:1").want(200, "OK").text()
		for {
			if exit, _ := r.Exit(upid); exit != "" {
				break
			}
			_ = Real{}.Sleep(t.Context(), time.Second) // the bubble's
		}
		r.do("GET", q+"/999/config", "").want(500, "Configuration file 'nodes/pve1/qemu-server/999.conf' does not exist")
		if took := time.Since(began); took < time.Second || took > time.Minute {
			t.Errorf("took %v", took)
		}
	})
}

// TestRealTimeIsScaled: for a demo everything is as much faster as it is told, waits and lag too.
func TestRealTimeIsScaled(t *testing.T) {
	t.Parallel()
	s, err := New(Options{Scale: 0.001})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c := s.Console()
	if err := c.Create("pve1", 200, nil); err != nil {
		t.Fatal(err)
	}
	deadline := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		_, seen := s.lastSeen(s.vms[200])
		s.mu.Unlock()
		if seen {
			return
		}
		select {
		case <-deadline:
			t.Fatal("the list lags for longer than ten milliseconds")
		case <-time.After(time.Millisecond):
		}
	}
}
