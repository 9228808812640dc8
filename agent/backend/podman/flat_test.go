package podman_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
)

// A44: fifty runners one after another, each of which writes a mebibyte and a log, leave the engine's storage with the bytes and
// the files that it had after the first few.
func TestFiftyRunnersKeepTheStorageFlat(t *testing.T) {
	b := open("hst_flat")
	count := 0
	run := func(n int) {
		for range n {
			count++
			name := fmt.Sprint("flat-", count)
			w, err := b.Create(t.Context(), backend.Spec{
				Name: name, RunnerID: "run_" + name, Image: fixture.Image, Network: "none",
				Command: []string{"sh", "-c", "head -c 1048576 /dev/urandom > /tmp/waste; seq 1000"},
			})
			if err != nil {
				t.Fatal(err)
			}
			ended(t, b, w.ID)
			if err := b.Remove(t.Context(), w.ID); err != nil {
				t.Fatal(err)
			}
		}
	}
	run(3)
	bytes, files := usage(t, fixture.StorageDir())
	_, fleeting := usage(t, fixture.RunDir())
	run(50)
	bytesNow, filesNow := usage(t, fixture.StorageDir())
	_, fleetingNow := usage(t, fixture.RunDir())
	t.Logf("storage: %d bytes in %d files, then %d in %d; run folder: %d files, then %d", bytes, files, bytesNow, filesNow, fleeting, fleetingNow)
	if bytesNow > bytes+128<<10 { // the engine's own database grows by doubling
		t.Errorf("the storage grew from %d to %d bytes", bytes, bytesNow)
	}
	if filesNow > files+5 || fleetingNow > fleeting+5 {
		t.Errorf("files: %d → %d in the storage, %d → %d in the run folder", files, filesNow, fleeting, fleetingNow)
	}
}

func ended(t *testing.T, b *podman.Backend, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		w, err := b.Inspect(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if w.Phase == backend.Exited {
			return
		}
		<-tick.C
	}
}

// usage counts what is below a folder. What vanishes meanwhile counts for nothing.
func usage(t *testing.T, dir string) (bytes int64, files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		files++
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			bytes += info.Size()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes, files
}
