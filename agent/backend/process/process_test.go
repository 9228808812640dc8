package process_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/backendtest"
	"github.com/zoomies-fleet/zoomies/agent/backend/process"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == process.ShimVerb {
		os.Exit(process.ShimMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}

func open(t *testing.T, dir, host string) *process.Backend {
	t.Helper()
	b, err := process.New(process.Options{Dir: dir, HostID: host})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestProcessIsABackend(t *testing.T) {
	dir := t.TempDir()
	backendtest.Run(t, backendtest.Harness{
		New: func(t *testing.T, host string) backend.Backend { t.Helper(); return open(t, dir, host) },
		Half: func(t *testing.T, b backend.Backend, spec backend.Spec) {
			t.Helper()
			if err := b.(*process.Backend).CreateOnly(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
		},
		Leftovers: func(t *testing.T) []string {
			t.Helper()
			left, err := filepath.Glob(filepath.Join(dir, "prc_*"))
			if err != nil {
				t.Fatal(err)
			}
			return left
		},
	})
}
