package podman

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// plainProcesses is what the podman command can always set: close to the kernel's own bound, which Create may ask for
// over the API, Podman 4.3's command fails.
const plainProcesses = 4096

// RunFlags are the flags that make `podman run` by hand start a container on the network, with the limits and with the
// settings of this machine that Create would: what the engine cannot apply is left out here too.
func (b *Backend) RunFlags(ctx context.Context, spec backend.Spec) ([]string, error) {
	f, err := b.features(ctx)
	if err != nil {
		return nil, err
	}
	mode, err := f.network(spec.Network)
	if err != nil {
		return nil, err
	}
	return runFlags(spec, f, mode), nil
}

func runFlags(spec backend.Spec, f features, mode string) []string {
	flags := []string{"--network", mode}
	can := limits(spec, f.info)
	if can.CPU != nil {
		flags = append(flags, "--cpus", strconv.FormatFloat(spec.CPUs, 'g', -1, 64))
	}
	if can.Memory != nil {
		bytes := strconv.FormatInt(*can.Memory.Limit, 10)
		flags = append(flags, "--memory", bytes, "--memory-swap", bytes)
	}
	if can.Pids != nil {
		flags = append(flags, "--pids-limit", strconv.FormatInt(can.Pids.Limit, 10))
	}
	for _, l := range f.rlimits {
		most := l.Hard
		if l.Type == "NPROC" {
			most = min(most, plainProcesses)
		}
		flags = append(flags, "--ulimit", fmt.Sprintf("%s=%d", strings.ToLower(l.Type), most))
	}
	return flags
}
