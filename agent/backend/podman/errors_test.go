package podman

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/errorhandling"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/peer"
)

// Only a transport failure may open the agent's cooldown.
func TestFaultTellsTransportFromAnswer(t *testing.T) {
	t.Parallel()
	classes := []error{backend.ErrUnavailable, backend.ErrNotFound, backend.ErrExists, backend.ErrImage}
	for name, c := range map[string]struct{ err, want error }{
		"socket gone":     {&url.Error{Op: "Get", URL: "http://d", Err: &net.OpError{Op: "dial", Err: syscall.ENOENT}}, backend.ErrUnavailable},
		"refused":         {bindings.ConnectError{Err: syscall.ECONNREFUSED}, backend.ErrUnavailable},
		"cut off":         {fmt.Errorf("unable to process API response: %w", io.ErrUnexpectedEOF), backend.ErrUnavailable},
		"caller gave up":  {&url.Error{Op: "Get", URL: "http://d", Err: context.DeadlineExceeded}, context.DeadlineExceeded},
		"answer 404":      {&errorhandling.ErrorModel{ResponseCode: 404, Message: "no such container"}, backend.ErrNotFound},
		"answer conflict": {&errorhandling.ErrorModel{ResponseCode: 500, Because: "that name is already in use"}, backend.ErrExists},
		"answer image":    {&errorhandling.ErrorModel{ResponseCode: 500, Because: "image not known"}, backend.ErrImage},
		"answer 500":      {&errorhandling.ErrorModel{ResponseCode: 500, Message: "OCI permission denied"}, nil},
	} {
		got := fault("do it", c.err)
		for _, class := range append(classes, context.DeadlineExceeded) {
			if is := errors.Is(got, class); is != (class == c.want) {
				t.Errorf("%s: %v is %v: %t", name, got, class, is)
			}
		}
	}
}

// Root without CAP_SYS_RESOURCE may give no more than it has.
func TestResourceLimitsAreWhatTheEngineCanGive(t *testing.T) {
	t.Parallel()
	if got := rlimits(peer.Process{Capabilities: ^uint64(0), MaxFiles: 1024, MaxProcesses: 99}); got != nil {
		t.Errorf("an engine that may raise limits is asked for %v", got)
	}
	got := rlimits(peer.Process{MaxFiles: 20000, MaxProcesses: 0})
	if len(got) != 1 || got[0].Type != "NOFILE" || got[0].Hard != 20000 || got[0].Soft != 20000 {
		t.Errorf("an engine that may not is asked for %v", got)
	}
}

func TestAnEngineThatCannotRunAnythingIsNotUsed(t *testing.T) {
	t.Parallel()
	info := func(version, runtime string, rootless bool) *define.Info {
		return &define.Info{Host: &define.HostInfo{
			CgroupsVersion: version, OCIRuntime: &define.OCIRuntimeInfo{Name: runtime}, Security: define.SecurityInfo{Rootless: rootless},
		}}
	}
	if usable(info("v1", "crun", false)) == nil {
		t.Error("crun on version 1 cgroups is used")
	}
	for _, fine := range []*define.Info{info("v1", "runc", false), info("v2", "crun", false)} {
		if err := usable(fine); err != nil {
			t.Error(err)
		}
	}
}

// Without limits that the engine can apply, none is asked for.
func TestUnsupportedLimitsAreLeftOut(t *testing.T) {
	t.Parallel()
	spec := backend.Spec{CPUs: 2, MemoryMB: 64, PidsLimit: 5}
	if got := limits(spec, backend.Info{}); got.CPU != nil || got.Memory != nil || got.Pids != nil {
		t.Errorf("an engine without limits is asked for %+v", got)
	}
	got := limits(spec, backend.Info{CPULimit: true, MemoryLimit: true, PidsLimit: true})
	if *got.CPU.Quota != 200_000 || *got.Memory.Limit != 64<<20 || *got.Memory.Swap != 64<<20 || got.Pids.Limit != 5 {
		t.Errorf("asked for %+v", got)
	}
}
