package tunneltest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"tailscale.com/tailcfg"
	"tailscale.com/tstest/integration/testcontrol"
	"tailscale.com/types/key"
	"tailscale.com/types/logger"

	"github.com/zoomies-fleet/zoomies/tunnel"
	"github.com/zoomies-fleet/zoomies/tunnel/dialer"
	"github.com/zoomies-fleet/zoomies/tunnel/relay"
	"github.com/zoomies-fleet/zoomies/tunnel/tailcat"
	"github.com/zoomies-fleet/zoomies/tunnel/tailnet"
	"github.com/zoomies-fleet/zoomies/tunnel/tunneltest"
)

func sayf(format string, args ...any) { fmt.Printf("> "+format+"\n", args...) }

// TestChild is what runs in a namespace. By itself it is nothing.
func TestChild(t *testing.T) {
	role := os.Getenv("ZOOMIES_TEST_ROLE")
	if role == "" {
		return // this is the parent
	}
	args := strings.Fields(os.Getenv("ZOOMIES_TEST_ARGS"))
	lines := bufio.NewScanner(os.Stdin)
	var err error
	switch role {
	case "tailcat-controller":
		err = tailcatController(t, lines)
	case "tailcat-gateway":
		err = tailcatGateway(t, args, lines)
	case "tailnet-controller":
		err = tailnetController(t, lines)
	case "tailcat-host", "tailnet-host":
		err = host(t, args[0], args[1], lines)
	default:
		err = fmt.Errorf("there is no role %q", role)
	}
	if err != nil {
		sayf("error %v", err)
		t.Fatal(err)
	}
}

// relayHere runs a relay's state and listener on the controller's address.
func relayHere() (relay.State, net.Listener, error) {
	state, err := relay.NewState(time.Now())
	if err != nil {
		return state, nil, err
	}
	l, err := net.Listen("tcp", controllerIP+":0")
	return state, l, err
}

func echoes(t *testing.T, s tunnel.Tunnel) error {
	l, err := s.Listen(80)
	if err != nil {
		return err
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return nil
}

func tailcatController(t *testing.T, lines *bufio.Scanner) error {
	state, l, err := relayHere()
	if err != nil {
		return err
	}
	own := tailcat.NewIdentity() // for dialling gateways
	one := tailcat.NewIdentity()
	s, err := tailcat.Serve(tailcat.Options{
		Entrances: []tailcat.Entrance{{Identity: tailcat.NewIdentity(), Relay: state, Listener: l}},
		Hosts:     []tailcat.Host{{Name: "host-1", Public: one.Public()}},
	})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := echoes(t, s); err != nil {
		return err
	}
	if err := s.WaitReady(t.Context()); err != nil {
		return err
	}
	sayf("%s %s", s.Addresses()[0], one.Secret())
	for lines.Scan() {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		switch verb {
		case "gateway":
			gateway := tailcat.NewIdentity()
			if err := s.AdmitToRelay(gateway.Public()); err != nil {
				return err
			}
			if err := s.AdmitToRelay(own.Public()); err != nil {
				return err
			}
			sayf("%s %s %s", s.Addresses()[0], gateway.Secret(), own.Public())
		case "reach":
			c, err := tailcat.Connect(tailcat.ClientOptions{Address: rest, Identity: own})
			if err != nil {
				return err
			}
			took, _, err := reach(t, c)
			c.Close()
			if err != nil {
				return err
			}
			sayf("%v", took)
		}
	}
	return nil
}

func tailcatGateway(t *testing.T, args []string, lines *bufio.Scanner) error {
	identity, err := tailcat.ParseIdentity(args[1])
	if err != nil {
		return err
	}
	s, err := tailcat.Serve(tailcat.Options{
		Entrances: []tailcat.Entrance{{Identity: identity, Via: args[0]}},
		Hosts:     []tailcat.Host{{Name: "controller", Public: args[2]}},
	})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := echoes(t, s); err != nil {
		return err
	}
	if err := s.WaitReady(t.Context()); err != nil {
		return err
	}
	sayf("%s", s.Addresses()[0])
	for lines.Scan() {
	}
	return nil
}

func tailnetController(t *testing.T, lines *bufio.Scanner) error {
	state, l, err := relayHere()
	if err != nil {
		return err
	}
	r, err := relay.New(state, func(key.NodePublic) bool { return true }, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	go func() { _ = r.Serve(l) }()
	defer r.Close()
	region, err := state.Region(l.Addr().String())
	if err != nil {
		return err
	}
	control := &testcontrol.Server{
		DERPMap:   &tailcfg.DERPMap{OmitDefaultRegions: true, Regions: map[int]*tailcfg.DERPRegion{relay.RegionID: region}},
		DNSConfig: &tailcfg.DNSConfig{Proxied: true}, MagicDNSDomain: "tail-test.ts.net", Logf: logger.Discard, AllOnline: true,
	}
	control.HTTPTestServer = httptest.NewUnstartedServer(control)
	control.HTTPTestServer.Listener.Close()
	if control.HTTPTestServer.Listener, err = net.Listen("tcp", controllerIP+":0"); err != nil {
		return err
	}
	control.HTTPTestServer.Start()
	defer control.HTTPTestServer.Close()
	s, err := tailnet.Join(tailnet.Options{Control: control.HTTPTestServer.URL, Hostname: "zoomies", Key: "tskey-test"})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.WaitReady(t.Context()); err != nil {
		return err
	}
	if err := echoes(t, s); err != nil {
		return err
	}
	sayf("%s %s", tailnet.Address{Node: "zoomies", Control: control.HTTPTestServer.URL}, "tskey-test")
	for lines.Scan() {
	}
	return nil
}

// host is what an agent does.
func host(t *testing.T, address, secret string, lines *bufio.Scanner) error {
	d, err := dialer.Open(dialer.Options{Address: address, Key: secret, Name: "host-1"})
	if err != nil {
		return err
	}
	defer d.Close()
	var held net.Conn
	for lines.Scan() {
		switch lines.Text() {
		case "hold":
			took, c, err := reach(t, d)
			if err != nil {
				return err
			}
			held = c
			sayf("%v", took)
		case "held":
			start := time.Now()
			for range 20 {
				if err := ping(held); err != nil {
					return fmt.Errorf("the held connection: %w", err)
				}
			}
			sayf("20 round trips in %v", time.Since(start))
		case "dial":
			took, c, err := reach(t, d)
			if err != nil {
				return err
			}
			c.Close()
			sayf("%v", took)
		case "lose":
			for {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				c, err := d.Dial(ctx, "tcp", "controller:80")
				cancel()
				if err != nil {
					break
				}
				c.Close()
			}
			sayf("lost")
		}
	}
	return nil
}

// reach dials until it is answered.
func reach(t *testing.T, d tunnel.Tunnel) (time.Duration, net.Conn, error) {
	start := time.Now()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		c, err := d.Dial(ctx, "tcp", "controller:80")
		cancel()
		if err == nil {
			if err = ping(c); err == nil {
				return time.Since(start), c, nil
			}
			c.Close()
		}
		if time.Since(start) > tunneltest.Patience {
			return 0, nil, err
		}
	}
}

func ping(c net.Conn) error {
	_ = c.SetDeadline(time.Now().Add(tunneltest.Patience / 3))
	if _, err := c.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err
}
