package boot

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

const (
	defaultEndpoint = "unix:///var/run/docker.sock"
	probeTimeout    = 5 * time.Second        // of one probe
	probeFirstPause = 25 * time.Millisecond  // between the first two probes, doubling
	probeLongPause  = 500 * time.Millisecond // up to this
)

// Endpoint is where a container daemon listens.
type Endpoint struct {
	Network string // unix or tcp
	Address string // a path, or host:port
}

func (e Endpoint) String() string { return e.Network + "://" + e.Address }

// ParseEndpoint reads a value of DOCKER_HOST; "" is Docker's own default.
func ParseEndpoint(host string) (Endpoint, error) {
	host = strings.TrimSpace(host)
	if host == "" {
		host = defaultEndpoint
	}
	scheme, address, _ := strings.Cut(host, "://")
	switch {
	case scheme == "unix" && strings.HasPrefix(address, "/"):
		return Endpoint{Network: "unix", Address: address}, nil
	case scheme == "tcp":
		address = strings.TrimSuffix(address, "/")
		if name, port, err := net.SplitHostPort(address); err == nil && name != "" && port != "" {
			return Endpoint{Network: "tcp", Address: address}, nil
		}
	}
	// The value is not repeated: an address may hold a password.
	return Endpoint{}, fmt.Errorf("%s must be unix:///path or tcp://host:port", envDockerHost)
}

// Await probes until the daemon answers, wait has passed, or ctx ends. The error is the last
// probe's, or ctx's cause.
func (e Endpoint) Await(ctx context.Context, wait time.Duration) error {
	return await(ctx, wait, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, e.Network, e.Address)
	})
}

type dialFunc func(context.Context) (net.Conn, error)

func await(ctx context.Context, wait time.Duration, dial dialFunc) error {
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var last error
	for pause := probeFirstPause; ; pause = min(2*pause, probeLongPause) {
		err := probe(limited, dial)
		if err == nil {
			return nil
		}
		// When the time runs out inside a probe, the one before says more.
		if last == nil || limited.Err() == nil {
			last = err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-limited.Done():
			timer.Stop()
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case limited.Err() != nil:
			return last
		}
	}
}

// probe asks the daemon once for GET /_ping. The request is written by hand because the HTTP
// client of the standard library would triple the size of this program, and the page faults
// of a larger program are part of every runner's start.
func probe(ctx context.Context, dial dialFunc) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	conn, err := dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	// A deadline or a signal ends the probe wherever it stands.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()

	if _, err := io.WriteString(conn, "GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n"); err != nil {
		return errors.New("it does not take a request")
	}
	status, err := bufio.NewReader(io.LimitReader(conn, 1024)).ReadString('\n')
	switch {
	case ctx.Err() != nil:
		return errors.New("it accepted a connection and said nothing")
	case err != nil:
		return errors.New("it closed the connection without an answer")
	}
	fields := strings.Fields(status)
	if len(fields) < 2 || !strings.HasPrefix(fields[0], "HTTP/1.") || fields[1] != "200" {
		return errors.New("it answers, but not as a container daemon that is ready")
	}
	return nil
}
