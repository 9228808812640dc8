package tunneltest_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/tunnel/tunneltest"
)

// The network of these tests, in namespaces of their own:
//
//	controller 203.0.113.1 -- 203.0.113.2 router (NAT) 192.168.77.1 -- 192.168.77.2 host
//
// Each namespace has a default route into a device that leads nowhere, and counts what is sent
// anywhere but to the addresses above.
const (
	controllerIP = "203.0.113.1"
	hostIP       = "192.168.77.2"
)

type network struct{ controller, router, host string }

func newNetwork(t *testing.T) network {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: network namespaces cannot be made")
	}
	for _, program := range []string{"ip", "nft", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s on this machine: install iproute2, nftables and util-linux", program)
		}
	}
	id := fmt.Sprintf("zt%d", os.Getpid())
	n := network{id + "c", id + "r", id + "h"}
	for _, ns := range []string{n.controller, n.router, n.host} {
		if out, err := exec.Command("ip", "netns", "add", ns).CombinedOutput(); err != nil {
			t.Skipf("network namespaces cannot be made here: %s", out)
		}
		t.Cleanup(func() { run(t, "ip", "netns", "del", ns) })
		n.in(t, ns, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1", "net.ipv4.ip_forward=1")
		run(t, "ip", "-n", ns, "link", "set", "lo", "up")
	}
	link := func(a, aIP, b, bIP, name string) {
		run(t, "ip", "-n", a, "link", "add", name, "type", "veth", "peer", "name", name, "netns", b)
		run(t, "ip", "-n", a, "addr", "add", aIP, "dev", name)
		run(t, "ip", "-n", b, "addr", "add", bIP, "dev", name)
		run(t, "ip", "-n", a, "link", "set", name, "up")
		run(t, "ip", "-n", b, "link", "set", name, "up")
	}
	link(n.controller, controllerIP+"/24", n.router, "203.0.113.2/24", "wan0")
	link(n.router, "192.168.77.1/24", n.host, hostIP+"/24", "lan0")
	for _, ns := range []string{n.controller, n.router} {
		run(t, "ip", "-n", ns, "link", "add", "out0", "type", "veth", "peer", "name", "out1")
		run(t, "ip", "-n", ns, "link", "set", "out1", "up")
		run(t, "ip", "-n", ns, "link", "set", "out0", "up")
		run(t, "ip", "-n", ns, "route", "add", "default", "dev", "out0")
	}
	run(t, "ip", "-n", n.host, "route", "add", "default", "via", "192.168.77.1")
	n.nft(t, n.router, `table ip nat { chain post { type nat hook postrouting priority 100; oifname "wan0" masquerade; }; }
table inet rules { chain forward { type filter hook forward priority 0; }; }`)
	for _, ns := range []string{n.controller, n.router, n.host} {
		n.nft(t, ns, `table inet audit { set where { type ipv4_addr; flags dynamic; }; chain out { type filter hook output priority 0; oifname "lo" accept; ip daddr { 203.0.113.0/24, 192.168.77.0/24 } accept; add @where { ip daddr } counter; }; }`)
	}
	return n
}

func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// in runs a program in a namespace. `ip netns exec` would mount over /sys.
func (n network) in(t *testing.T, ns string, args ...string) string {
	t.Helper()
	return run(t, append([]string{"nsenter", "--net=" + filepath.Join("/run/netns", ns)}, args...)...)
}

func (n network) nft(t *testing.T, ns, rules string) {
	t.Helper()
	c := exec.Command("nsenter", "--net="+filepath.Join("/run/netns", ns), "nft", "-f", "-")
	c.Stdin = strings.NewReader(rules)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v: %s", err, out)
	}
}

var counted = regexp.MustCompile(`counter packets (\d+)`)

// outside is how many packets a namespace has tried to send elsewhere.
func (n network) outside(t *testing.T, ns string) string {
	t.Helper()
	m := counted.FindStringSubmatch(n.in(t, ns, "nft", "list", "chain", "inet", "audit", "out"))
	if m == nil {
		t.Fatal("the audit does not count")
	}
	return m[1]
}

// child is this test binary, in another namespace and another role.
type child struct {
	t    *testing.T
	in   io.Writer
	out  chan string
	said *bytes.Buffer
}

func (n network) start(t *testing.T, ns, role string, args ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("nsenter", "--net="+filepath.Join("/run/netns", ns), self, "-test.run=^TestChild$")
	c.Env = append(os.Environ(), "ZOOMIES_TEST_ROLE="+role, "ZOOMIES_TEST_ARGS="+strings.Join(args, " "), "HOME="+t.TempDir())
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	made := &child{t: t, in: in, out: make(chan string, 100), said: new(bytes.Buffer)}
	c.Stderr = made.said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(made.out)
		for s := bufio.NewScanner(out); s.Scan(); {
			if line, ok := strings.CutPrefix(s.Text(), "> "); ok {
				made.out <- line
			}
		}
	}()
	t.Cleanup(func() {
		in.Close() // a child ends with its input
		over := time.AfterFunc(tunneltest.Patience, func() { _ = c.Process.Kill() })
		defer over.Stop()
		<-read
		if err := c.Wait(); err != nil {
			t.Errorf("the %s: %v: %s", role, err, made.said)
		}
	})
	return made
}

// ask sends a line, if there is one, and gives the answer.
func (c *child) ask(line string) string {
	c.t.Helper()
	if line != "" {
		fmt.Fprintln(c.in, line)
	}
	select {
	case answer, ok := <-c.out:
		if !ok {
			c.t.Fatalf("the child has ended: %s", c.said)
		}
		if strings.HasPrefix(answer, "error") {
			c.t.Fatal(answer)
		}
		return answer
	case <-time.After(tunneltest.Patience):
		c.t.Fatalf("the child does not answer %q", line)
		return ""
	}
}

func TestThroughNAT(t *testing.T) {
	for _, transport := range []string{"tailcat", "tailnet"} {
		t.Run(transport, func(t *testing.T) {
			n := newNetwork(t)
			controller := n.start(t, n.controller, transport+"-controller", controllerIP)
			host := n.start(t, n.host, transport+"-host", strings.Fields(controller.ask(""))...)
			t.Logf("first byte: %s", host.ask("hold"))
			t.Logf("next connection: %s", host.ask("dial"))

			if transport == "tailcat" { // a gateway behind NAT is reached too, at the controller's relay
				gateway := n.start(t, n.host, "tailcat-gateway", strings.Fields(controller.ask("gateway"))...)
				t.Logf("gateway behind NAT: %s", controller.ask("reach "+gateway.ask("")))
			}

			n.nft(t, n.router, `add rule inet rules forward meta l4proto udp drop`)
			t.Logf("held connection without UDP: %s", host.ask("held"))
			t.Logf("next connection without UDP: %s", host.ask("dial"))

			// Nothing at all gets through, until it does again.
			n.nft(t, n.router, `add rule inet rules forward drop`)
			host.ask("lose")
			n.nft(t, n.router, `flush chain inet rules forward`)
			start := time.Now()
			t.Logf("back after the network was away: %s", host.ask("dial"))
			if took := time.Since(start); took > time.Minute {
				t.Errorf("back only after %v", took)
			}
			for _, ns := range []string{n.controller, n.router, n.host} {
				if got := n.outside(t, ns); got != "0" {
					t.Errorf("%s packets were sent outside the test's network from %s: %s", got, ns, n.in(t, ns, "nft", "list", "ruleset"))
				}
			}
			// The audit itself hears what goes outside.
			_ = exec.Command("nsenter", "--net="+filepath.Join("/run/netns", n.host), "ip", "route", "get", "192.0.2.1").Run()
			_ = exec.Command("nsenter", "--net="+filepath.Join("/run/netns", n.host), "bash", "-c", "echo x > /dev/udp/192.0.2.1/9").Run()
			if n.outside(t, n.host) == "0" {
				t.Error("the audit is deaf")
			}
		})
	}
}
