package podman

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/containers/podman/v5/libpod/define"
	"github.com/containers/podman/v5/pkg/bindings"
	"github.com/containers/podman/v5/pkg/bindings/system"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/peer"
)

// features is what the engine and the machine under it can do.
type features struct {
	info    backend.Info
	rlimits []specs.POSIXRlimit // to be set on every create; nil when the defaults work
	init    bool                // an init that reaps is installed
	noTun   error               // why workloads can have no network of their own; nil when they can
	pid     int                 // of the service that said all this; 0 when it cannot be seen
}

// Probe asks the engine what it is and can do. What it finds is used by the creates after it. The same service is asked in
// full only once: to answer, Podman 4 runs the package manager for each program it uses, which takes longer on a busy
// machine than the agent waits for. After that it must answer a ping.
func (b *Backend) Probe(ctx context.Context) (backend.Info, error) {
	ctx, err := b.dial(ctx)
	if err != nil {
		return backend.Info{}, err
	}
	if known := b.found.Load(); known != nil && known.pid != 0 {
		if process, err := peer.Of(ctx, b.socket); err == nil && process.PID == known.pid {
			return known.info, ping(ctx)
		}
	}
	info, err := b.whatItIs(ctx)
	if err != nil {
		return backend.Info{}, fault("ask Podman what it can do", err)
	}
	if err := usable(info); err != nil {
		return backend.Info{}, fmt.Errorf("cannot use Podman at %s: %w", b.socket, err)
	}
	found := b.read(ctx, info)
	b.found.Store(&found)
	return found.info, nil
}

// question is one that Podman is being asked. Its fields are set when done is closed.
type question struct {
	done chan struct{}
	info *define.Info
	err  error
}

// whatItIs waits for what Podman says of itself until ctx ends. The question outlives an impatient caller, so that the next one
// finds the answer: on a busy machine each of them alone would give up.
func (b *Backend) whatItIs(ctx context.Context) (*define.Info, error) {
	b.mu.Lock()
	q := b.asking
	if q == nil {
		q = &question{done: make(chan struct{})}
		b.asking = q
		go func() {
			ctx, done := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer done()
			q.info, q.err = system.Info(ctx, nil)
			close(q.done)
		}()
	}
	b.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-q.done:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.asking == q {
		b.asking = nil
	}
	return q.info, q.err
}

func ping(ctx context.Context) error {
	conn, err := bindings.GetClient(ctx)
	if err != nil {
		return fault("ask Podman whether it answers", err)
	}
	answer, err := conn.DoRequest(ctx, nil, http.MethodGet, "/_ping", nil, nil)
	if err != nil {
		return fault("ask Podman whether it answers", err)
	}
	defer func() { _ = answer.Body.Close() }()
	if !answer.IsSuccess() {
		return fmt.Errorf("cannot use Podman: it answers a ping with %s", answer.Status)
	}
	return nil
}

// features of the engine, asked once.
func (b *Backend) features(ctx context.Context) (features, error) {
	if found := b.found.Load(); found != nil {
		return *found, nil
	}
	if _, err := b.Probe(ctx); err != nil {
		return features{}, err
	}
	return *b.found.Load(), nil
}

func (b *Backend) read(ctx context.Context, info *define.Info) features {
	host := info.Host
	v2 := host.CgroupsVersion == "v2"
	rootless := host.Security.Rootless
	controllers := host.CgroupControllers
	process, err := peer.Of(ctx, b.socket)
	switch {
	case rootless && (!v2 || host.CgroupManager != "systemd"):
		controllers = nil // only version 2 lets limits be delegated, and only systemd does it; Podman lists them all the same
	case rootless && err == nil && len(host.IDMappings.UIDMap) > 0:
		controllers = slices.Concat(controllers, thisMachine().delegated(host.IDMappings.UIDMap[0].HostID))
	}
	has := func(controller string) bool { return slices.Contains(controllers, controller) }
	found := features{info: backend.Info{
		Version: info.Version.Version, Rootless: rootless,
		OS: host.OS, Arch: host.Arch,
		CPUs: float64(host.CPUs), MemoryMB: host.MemTotal >> 20, CgroupV2: v2,
		CPULimit: has("cpu"), MemoryLimit: has("memory"), PidsLimit: has("pids"),
	}}
	if info.Store != nil {
		found.info.StorageDir = info.Store.GraphRoot
	}
	if rootless && os.Geteuid() != 0 {
		found.noTun = thisMachine().tun()
	}
	if err != nil {
		b.log.Debug("cannot see Podman's process, so its own default limits stand", "error", err)
		return found
	}
	found.pid = process.PID
	found.init = hasInit()
	if !rootless { // without root Podman asks for no more than it has
		found.rlimits = rlimits(process)
	}
	return found
}

// rlimits to ask for. A service of root asks for more open files and processes than it may
// have itself, which the kernel refuses when it lacks CAP_SYS_RESOURCE: then its own hard
// limits are the most it can give.
func rlimits(p peer.Process) []specs.POSIXRlimit {
	if p.MayRaiseLimits() {
		return nil
	}
	var out []specs.POSIXRlimit
	// Podman's API adds the RLIMIT_ prefix itself.
	if n := p.MaxFiles; n > 0 {
		out = append(out, specs.POSIXRlimit{Type: "NOFILE", Hard: n, Soft: n})
	}
	if n := p.MaxProcesses; n > 0 {
		out = append(out, specs.POSIXRlimit{Type: "NPROC", Hard: n, Soft: n})
	}
	return out
}

// usable says why an engine cannot run anything here.
func usable(info *define.Info) error {
	host := info.Host
	if host.CgroupsVersion == "v1" && host.OCIRuntime != nil && host.OCIRuntime.Name == "crun" && !host.Security.Rootless {
		return errors.New("its runtime is crun, which refuses this machine's version 1 cgroups: install runc and let Zoomies start Podman itself, or set runtime = \"runc\" in containers.conf")
	}
	if host.Security.Rootless {
		return idRange(host.IDMappings, userName())
	}
	return nil
}

// hasInit says whether an init process that Podman puts into a container is installed. The
// runner images' entrypoint reaps by itself where it is not.
func hasInit() bool {
	for _, path := range []string{"/usr/libexec/podman/catatonit", "/usr/lib/podman/catatonit", "/usr/local/libexec/podman/catatonit", "/usr/bin/catatonit"} {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	_, err := exec.LookPath("catatonit")
	return err == nil
}

// CheckNetwork says why a workload on a network (as in Spec.Network) could not start on this machine, as far as that can be
// known beforehand.
func (b *Backend) CheckNetwork(ctx context.Context, name string) error {
	f, err := b.features(ctx)
	if err != nil {
		return err
	}
	_, err = f.network(name)
	return err
}

// network is the engine's name for the network of a spec.
func (f features) network(name string) (string, error) {
	mode, err := network(name, f.info.Rootless)
	if err == nil && f.noTun != nil && mode != "host" && mode != "none" {
		return "", f.noTun
	}
	return mode, err
}

// network cuts "container:<id>" style modes down to what a pool may ask for.
func network(mode string, rootless bool) (string, error) {
	switch {
	case mode == "" && rootless:
		return "private", nil // the engine's own: pasta or slirp4netns
	case mode == "":
		return "bridge", nil
	case strings.ContainsAny(mode, ":/ \x00"):
		return "", fmt.Errorf("network %q is not bridge, host, none or a network's name", mode)
	}
	return mode, nil
}
