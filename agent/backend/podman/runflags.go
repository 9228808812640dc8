package podman

import (
	"fmt"
	"os"

	"github.com/zoomies-fleet/zoomies/agent/backend/peer"
)

// plainProcesses is what the podman command can always set: close to the kernel's own bound, which Create may ask for
// over the API, Podman 4.3's command fails.
const plainProcesses = 4096

// RunFlags are the flags that `podman run` by hand needs on this machine for what Create finds out by itself.
func (s *Service) RunFlags() ([]string, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	self, err := peer.Read(os.Getpid())
	if err != nil || self.MayRaiseLimits() {
		return nil, err
	}
	return []string{"--ulimit", fmt.Sprintf("nofile=%d", self.MaxFiles), "--ulimit", fmt.Sprintf("nproc=%d", plainProcesses)}, nil
}
