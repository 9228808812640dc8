package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/fake"
	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

// A43: what is removed is ours, unused and old, oldest first; no more than needed and, where that suffices, enough.
func TestEvictionsProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_800_000_000, 0)
		d := diskUse{totalMB: rapid.Int64Range(0, 100_000).Draw(t, "total")}
		d.freeMB = rapid.Int64Range(0, d.totalMB).Draw(t, "free")
		var images []storedImage
		for n := range rapid.IntRange(0, 12).Draw(t, "images") {
			i := storedImage{
				id: fmt.Sprint("id", n), sizeMB: rapid.Int64Range(0, 20_000).Draw(t, "size"), ours: rapid.Bool().Draw(t, "ours"), inUse: rapid.Bool().Draw(t, "used"),
				lastUsed: now.Add(-time.Duration(rapid.IntRange(-5, 120).Draw(t, "age")) * time.Minute),
			}
			if rapid.Bool().Draw(t, "named") {
				i.refs = []string{fmt.Sprint("ref", n)}
			}
			images = append(images, i)
		}
		got := evictions(d, images, now, ImageKeep)
		if d.percent() < EvictAbove && len(got) > 0 {
			t.Fatalf("a disk that is %d %% full loses %v", d.percent(), got)
		}
		after, gone := d, map[string]bool{}
		for n, i := range got {
			if !i.ours || i.inUse || len(i.refs) > 0 && now.Sub(i.lastUsed) < ImageKeep {
				t.Fatalf("this must stay: %+v", i)
			}
			if after.percent() <= EvictDownTo {
				t.Fatalf("%d of %d removals had been enough", n, len(got))
			}
			if n > 0 && len(i.refs) > 0 && len(got[n-1].refs) > 0 && i.lastUsed.Before(got[n-1].lastUsed) {
				t.Fatalf("%v goes after %v", i, got[n-1])
			}
			after.freeMB += i.sizeMB
			gone[i.id] = true
		}
		if len(gone) != len(got) {
			t.Fatalf("an image goes twice: %v", got)
		}
		if d.percent() < EvictAbove || after.percent() <= EvictDownTo {
			return
		}
		for _, i := range images { // not enough: then nothing that may go has been left
			if !gone[i.id] && i.ours && !i.inUse && now.Sub(i.lastUsed) >= ImageKeep {
				t.Fatalf("%+v stays although the disk is still %d %% full", i, after.percent())
			}
		}
		again := slices.Clone(images)
		slices.Reverse(again)
		if b := evictions(d, again, now, ImageKeep); !slices.EqualFunc(got, b, func(x, y storedImage) bool { return x.id == y.id }) {
			t.Fatalf("the order of the list matters: %v and %v", got, b)
		}
	})
}

// imageEngine is a fake engine with images and the disk that they fill.
type imageEngine struct {
	*fake.Backend
	mu      sync.Mutex
	names   map[string]string // ref: ID
	used    map[string]bool   // IDs
	present map[string]int64  // ID: MiB
	otherMB int64             // what else fills the disk of 1000 MiB
	pulls   int
	size    int64 // of what is pulled
	untold  int64 // what a removal frees beyond the size that is said
	removed []string
	gate    chan struct{} // a removal waits for it, if set
}

var _ backend.ImageStore = (*imageEngine)(nil)

func (e *imageEngine) Prepare(ctx context.Context, ref, policy string) error {
	if err := e.Backend.Prepare(ctx, ref, policy); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.names[ref] != "" && policy != backend.PullAlways {
		return nil
	}
	e.pulls++
	id := fmt.Sprintf("id-%d", e.pulls)
	e.names[ref], e.present[id] = id, e.size
	return nil
}

func (e *imageEngine) HasImage(_ context.Context, ref string) (bool, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.names[ref] != "", nil
}

func (e *imageEngine) ImageID(_ context.Context, ref string) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.names[ref], nil
}

func (e *imageEngine) Images(context.Context) (out []backend.Image, _ error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for id, size := range e.present {
		i := backend.Image{ID: id, SizeMB: max(0, size-e.untold), InUse: e.used[id]}
		for ref, of := range e.names {
			if of == id {
				i.Names = append(i.Names, ref)
			}
		}
		out = append(out, i)
	}
	return out, nil
}

func (e *imageEngine) RemoveImage(_ context.Context, target string) error {
	e.mu.Lock()
	gate := e.gate
	e.mu.Unlock()
	if gate != nil {
		<-gate
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	id := target
	if of, ok := e.names[target]; ok {
		id = of
	}
	if e.used[id] {
		return errors.New("image is in use by a container")
	}
	delete(e.names, target)
	e.removed = append(e.removed, target)
	for _, of := range e.names {
		if of == id {
			return nil
		}
	}
	delete(e.present, id)
	return nil
}

func (e *imageEngine) fill(mb int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.otherMB = mb
}

func (e *imageEngine) gone() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.removed)
}

// fullMachine measures the engine's disk at its storage folder, and another elsewhere.
type fullMachine struct {
	machine
	e *imageEngine
}

func (m fullMachine) Disk(path string) (int64, int64) {
	if path != "/storage" {
		return 1000, 900
	}
	m.e.mu.Lock()
	defer m.e.mu.Unlock()
	free := 1000 - m.e.otherMB
	for _, size := range m.e.present {
		free -= size
	}
	return 1000, max(0, free)
}

// withImages is a bubble whose engine has an image of the owner's.
func withImages(t *testing.T, fn func(t *testing.T, r *rig, e *imageEngine)) {
	t.Helper()
	bubble(t, func(t *testing.T, r *rig) {
		r.engine.SetStorage("/storage")
		e := &imageEngine{Backend: r.engine, names: map[string]string{"owner:1": "id-owner"}, used: map[string]bool{}, present: map[string]int64{"id-owner": 200}, size: 200}
		r.cfg.Backends, r.cfg.Machine = []backend.Backend{e}, fullMachine{e: e}
		fn(t, r, e)
	})
}

func (r *rig) prewarm(image, policy string) {
	r.t.Helper()
	r.ctl.mu.Lock()
	id := fmt.Sprintf("tsk_%s_%d", image, len(r.ctl.results))
	r.ctl.mu.Unlock()
	r.ctl.offer(protocol.Task{ID: id, Kind: protocol.TaskPrewarm, Prewarm: &protocol.Prewarm{Backend: "podman", Image: image, PullPolicy: policy}})
	synctest.Wait()
	r.wantOK(id)
}

// A43: a nearly full storage loses the image whose use is longest ago and no more; the owner's stays, also when it is used.
func TestImagesAreEvictedWhenTheStorageIsNearlyFull(t *testing.T) {
	withImages(t, func(t *testing.T, r *rig, e *imageEngine) {
		r.start()
		r.prewarm("owner:1", "missing")
		r.prewarm("old:1", "missing")
		r.after(time.Minute)
		r.prewarm("new:1", "missing") // 600 MiB
		e.fill(270)                   // 87 %
		r.after(ImageKeep / 2)
		if got := e.gone(); len(got) > 0 {
			t.Fatalf("evicted within the time that images are kept: %v", got)
		}
		last := r.ctl.lastBeat().Host
		if last.DiskTotalMB != 1000 || last.DiskFreeMB != 130 {
			t.Errorf("the heartbeat says %d of %d MiB free; the fuller filesystem is the storage's", last.DiskFreeMB, last.DiskTotalMB)
		}
		r.stop() // what is known outlives the agent
		r.start()
		r.after(2 * ImageKeep)
		if got := e.gone(); !slices.Equal(got, []string{"old:1"}) {
			t.Errorf("evicted %v", got)
		}
		e.fill(600)
		r.after(time.Minute)
		if got := e.gone(); !slices.Equal(got, []string{"old:1", "new:1"}) {
			t.Errorf("evicted %v", got)
		}
	})
}

// A43: an image that containers use, that has been given another name, or that somebody else put in ours' place stays; what a
// newer pull has replaced goes.
func TestOnlyOurUnusedImagesAreEvicted(t *testing.T) {
	withImages(t, func(t *testing.T, r *rig, e *imageEngine) {
		e.size = 20
		r.start()
		for _, image := range []string{"used:1", "shared:1", "swapped:1"} {
			r.prewarm(image, "missing")
		}
		r.prewarm("moving:1", "always") // id-4
		r.after(2 * PrewarmReuse)
		r.prewarm("moving:1", "always") // id-5
		r.after(2 * ImageKeep)
		e.mu.Lock()
		e.used[e.names["used:1"]], e.used["id-5"] = true, true
		e.names["kept-by-owner:1"] = e.names["shared:1"]
		delete(e.present, e.names["swapped:1"])
		e.names["swapped:1"], e.present["id-swapped"] = "id-swapped", 10
		e.mu.Unlock()
		e.fill(900)
		r.after(time.Minute)
		if got := e.gone(); !slices.Equal(got, []string{"id-4"}) {
			t.Errorf("evicted %v, want the replaced image alone", got)
		}
		e.mu.Lock()
		delete(e.used, e.names["used:1"])
		e.mu.Unlock()
		r.after(ImageKeep / 2)
		if got := e.gone(); len(got) != 1 {
			t.Errorf("evicted soon after its last use: %v", got)
		}
		r.after(ImageKeep)
		if got := e.gone(); !slices.Equal(got, []string{"id-4", "used:1"}) {
			t.Errorf("evicted %v", got)
		}
	})
}

// A43: a create that comes while its image is being evicted waits, and then fetches it again.
func TestACreateWaitsForTheEvictionOfItsImage(t *testing.T) {
	withImages(t, func(t *testing.T, r *rig, e *imageEngine) {
		r.start()
		r.prewarm("runner:1", "missing")
		r.after(2 * ImageKeep)
		e.gate = make(chan struct{})
		e.fill(900)
		r.after(HeartbeatInterval)
		r.ctl.offer(createTask("run_1"))
		synctest.Wait()
		r.wantUnanswered("tsk_create_run_1")
		close(e.gate)
		synctest.Wait()
		r.wantOK("tsk_create_run_1")
		if e.pulls != 2 || !slices.Equal(e.gone(), []string{"runner:1"}) {
			t.Errorf("%d pulls, evicted %v", e.pulls, e.gone())
		}
		r.after(ImageKeep / 2)
		if got := e.gone(); len(got) != 1 {
			t.Errorf("evicted although it was just fetched: %v", got)
		}
	})
}

// A list that is damaged costs the eviction of what was fetched before, and nothing else.
func TestADamagedListOfImagesStopsNothing(t *testing.T) {
	withImages(t, func(t *testing.T, r *rig, e *imageEngine) {
		if err := os.WriteFile(imagesPath(r.cfg.StatePath), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.start()
		r.prewarm("runner:1", "missing")
		if !strings.Contains(r.log.String(), "cannot read the list of fetched images") {
			t.Error("the log does not say so")
		}
		r.after(2 * ImageKeep)
		e.fill(900)
		r.after(time.Minute)
		if got := e.gone(); !slices.Equal(got, []string{"runner:1"}) {
			t.Errorf("evicted %v", got)
		}
	})
}

// A43: an image is not evicted under a create that is about to use it, however long that takes.
func TestAnImageIsNotEvictedUnderACreate(t *testing.T) {
	withImages(t, func(t *testing.T, r *rig, e *imageEngine) {
		r.cfg.ImageKeep = time.Second
		hold := make(chan struct{})
		r.engine.Inject(fake.OpCreate, fake.Fault{Hold: hold, Times: 1})
		r.start()
		r.ctl.offer(createTask("run_1"))
		synctest.Wait()
		e.fill(900)
		r.after(5 * time.Minute)
		if got := e.gone(); len(got) > 0 {
			t.Errorf("evicted under a create: %v", got)
		}
		close(hold)
		synctest.Wait()
		r.wantOK("tsk_create_run_1")
		r.after(2 * HeartbeatInterval)
		if got := e.gone(); !slices.Equal(got, []string{"runner:1"}) {
			t.Errorf("after it, evicted %v", got)
		}
	})
}

// A43: the disk is measured after each removal, which may free more than the image's size.
func TestEvictionEndsWhenThereIsRoom(t *testing.T) {
	withImages(t, func(t *testing.T, r *rig, e *imageEngine) {
		e.untold = 199
		r.start()
		r.prewarm("one:1", "missing")
		r.after(time.Minute)
		r.prewarm("two:1", "missing")
		r.after(2 * ImageKeep)
		e.fill(270) // 87 %
		r.after(time.Minute)
		if got := e.gone(); !slices.Equal(got, []string{"one:1"}) {
			t.Errorf("evicted %v", got)
		}
	})
}
