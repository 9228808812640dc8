package peer

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestTheProcessBehindASocketIsFound(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	p, err := Of(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if p.PID != os.Getpid() || p.UID != os.Geteuid() || p.MaxFiles == 0 {
		t.Errorf("found %+v, we are %d", p, os.Getpid())
	}
	if _, err := Of(t.Context(), path+"-not"); err == nil {
		t.Error("a socket that is not there has a process")
	}
}

func TestLimitsAreReadFromTheirRow(t *testing.T) {
	t.Parallel()
	const table = `Limit                     Soft Limit           Hard Limit           Units
Max processes             unlimited            32768                processes
Max open files            1024                 unlimited            files
`
	if got := hardLimit(table, "Max processes"); got != 32768 {
		t.Errorf("processes: %d", got)
	}
	if got := hardLimit(table, "Max open files"); got != 0 {
		t.Errorf("unlimited files: %d", got)
	}
	if got := hardLimit("", "Max open files"); got != 0 {
		t.Errorf("no table: %d", got)
	}
}

func TestCapabilityDecides(t *testing.T) {
	t.Parallel()
	if (Process{Capabilities: 0x1fffeffffff}).MayRaiseLimits() {
		t.Error("without CAP_SYS_RESOURCE it may raise limits")
	}
	if !(Process{Capabilities: 0x1ffffffffff}).MayRaiseLimits() {
		t.Error("with every capability it may not")
	}
}
