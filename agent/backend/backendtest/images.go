package backendtest

import (
	"slices"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// RunImages is the suite of backend.ImageStore: images are told apart by name, ID and use, and an image that a container uses, or
// that has another name, survives.
func RunImages(t *testing.T, e *EngineFixture, b backend.Backend) {
	t.Helper()
	store, ok := b.(backend.ImageStore)
	if !ok {
		t.Fatal("this backend keeps no images")
	}
	const ref, alias = "localhost/zoomies-evict:1", "localhost/owner:1"
	files, err := BusyboxFiles()
	if err != nil {
		t.Fatal(err)
	}
	if err := e.LoadImage(t.Context(), ref, v1.Config{Env: []string{"PATH=/bin"}, Labels: map[string]string{"of": "this test"}}, files); err != nil {
		t.Fatal(err)
	}
	if there, err := store.HasImage(t.Context(), ref); err != nil || !there {
		t.Fatalf("has the image: %v, %v", there, err)
	}
	id, err := store.ImageID(t.Context(), ref)
	if err != nil || id == "" {
		t.Fatalf("its ID is %q: %v", id, err)
	}
	image := func() (backend.Image, bool) {
		t.Helper()
		all, err := store.Images(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(i backend.Image) bool { return i.ID == id })
		if i < 0 {
			return backend.Image{}, false
		}
		return all[i], true
	}
	if i, _ := image(); !slices.Equal(i.Names, []string{ref}) || i.InUse {
		t.Errorf("unused it is %+v", i)
	}
	name := "uses-an-image"
	w, err := b.Create(t.Context(), backend.Spec{Name: name, RunnerID: "run_" + name, Image: ref, Network: "none", Command: []string{"sleep", "1000"}})
	if err != nil {
		t.Fatal(err)
	}
	if i, _ := image(); !i.InUse {
		t.Errorf("used it is %+v", i)
	}
	if err := store.RemoveImage(t.Context(), ref); err == nil {
		t.Error("an image that a container uses was removed")
	}
	if w, err := b.Inspect(t.Context(), w.ID); err != nil || w.Phase != backend.Running {
		t.Errorf("its container is %+v, %v", w, err)
	}
	if err := b.Remove(t.Context(), w.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Podman(t.Context(), "tag", ref, alias); err != nil {
		t.Fatal(err)
	}
	if err := store.RemoveImage(t.Context(), ref); err != nil {
		t.Error(err)
	}
	if i, there := image(); !there || !slices.Equal(i.Names, []string{alias}) {
		t.Errorf("with another name it is %+v", i)
	}
	for range 2 { // gone, and gone already
		if err := store.RemoveImage(t.Context(), alias); err != nil {
			t.Error(err)
		}
	}
	if _, there := image(); there {
		t.Error("without a name and a user it is still there")
	}
	if has, err := store.HasImage(t.Context(), ref); err != nil || has {
		t.Errorf("after its removal: %v, %v", has, err)
	}
	if id, err := store.ImageID(t.Context(), ref); err != nil || id != "" {
		t.Errorf("its ID is %q, %v", id, err)
	}
	info, err := b.Probe(t.Context())
	if err != nil || info.StorageDir != e.StorageDir() {
		t.Errorf("the storage is said to be %q: %v", info.StorageDir, err)
	}
}
