package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"github.com/zoomies-fleet/zoomies/agent/backend"
	"github.com/zoomies-fleet/zoomies/agent/backend/podman"
	"github.com/zoomies-fleet/zoomies/cmd/zoomies/demo"
	"github.com/zoomies-fleet/zoomies/controller/problems"
	"github.com/zoomies-fleet/zoomies/controller/store"
)

// A43: a job fills the engine's storage to above 95 %. It goes on and ends well, and its log is kept; nothing new is placed and
// no registration is minted meanwhile, which is a named problem; of the images that nothing uses only the one that the agent
// fetched is evicted; when the job's space is back the waiting job runs.
func TestAJobThatFillsTheDisk(t *testing.T) {
	reg := startRegistry(t)
	old, owned := reg.push(t, "runners/old:1"), reg.push(t, "owner/tool:1")
	dir := smallDisk(t, 384<<20)
	small, err := demo.StartEngine(t.Context(), dir, testLog())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := small.Discard(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	if err := demo.LoadImage(t.Context(), small.Socket(), imageFile); err != nil {
		t.Fatal(err)
	}
	podmanCommand(t, small, "pull", "--quiet", owned)
	f := start(t, func(o *demo.Options) { o.Engine, o.ImageKeep = small, time.Millisecond })
	st := f.Controller().Store
	second := f.Pool
	second.ID, second.Name, second.Labels, second.Image, second.PullPolicy = "", "old", []string{"old"}, old, "missing"
	if _, err := st.CreatePool(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	fetch := job("fetch", "echo fetched")
	fetch.Labels = []string{"self-hosted", "old"}
	finish(t, f.GitHub, f.GitHub.QueueJob(fetch), "success")
	nothingLeft(t, f)
	if have := names(t, small); !slices.Contains(have, old) || !slices.Contains(have, owned) {
		t.Fatalf("the engine has %v", have)
	}

	// 10 MiB stay free of 384: 97 %, and not below 95 % when 4 MiB of images are evicted.
	fill := freeBytes(t, dir) - 10<<20
	filler := f.GitHub.QueueJob(job("filler", fmt.Sprintf("head -c %d /dev/zero > /tmp/fill; echo filled; while [ ! -e /tmp/go ]; do sleep 0.1; done; echo went on", fill)))
	eventually(t, "the full disk is a named problem", func() bool { return problem(f, problems.DiskFull) != nil })
	runner := running(t, st)
	before := len(runners(t, st))
	mints := f.GitHub.Stats().Mints
	waiting := f.GitHub.QueueJob(job("waiting", "echo had room"))
	eventually(t, "the pool is blocked by the full disk", func() bool {
		p := problem(f, problems.PoolBlocked)
		return p != nil && strings.Contains(p.Why, "disk full") && strings.Contains(p.Fix, "% full")
	})
	eventually(t, "the image that the agent had fetched is evicted", func() bool { return !slices.Contains(names(t, small), old) })
	if have := names(t, small); !slices.Contains(have, owned) || !slices.Contains(have, demo.Image) {
		t.Errorf("an image that is not the agent's was evicted; left are %v", have)
	}
	if n := f.GitHub.Stats().Mints; n != mints || len(runners(t, st)) != before {
		t.Errorf("%d registrations and %d runners were made while the disk was full", n-mints, len(runners(t, st))-before)
	}
	if problem(f, problems.DiskFull) == nil {
		t.Error("the disk had room again before the job ended: the test proves nothing")
	}
	if text := workloadLog(t, f, runner.WorkloadID); text == "" {
		t.Error("the log of the job's runner is lost")
	}

	podmanCommand(t, small, "exec", runner.WorkloadID, "touch", "/tmp/go")
	if j := finish(t, f.GitHub, filler, "success"); !strings.Contains(j.Log, "went on") {
		t.Errorf("the job's log: %q", j.Log)
	}
	finish(t, f.GitHub, waiting, "success")
	eventually(t, "the problem is over", func() bool { return problem(f, problems.DiskFull) == nil })
	nothingLeft(t, f)
	for _, r := range runners(t, st) {
		if r.State != store.RunnerRemoved {
			t.Errorf("runner %s ended as %s: %s", r.Name, r.State, r.Message)
		}
	}
}

// smallDisk mounts a filesystem of its own.
func smallDisk(t *testing.T, size int64) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: a small filesystem is mounted for the engine's storage")
	}
	dir, err := os.MkdirTemp("", "zoomies-disk-") // a short path, for the engine's socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=0711", size)); errors.Is(err, unix.EPERM) {
		t.Skip("this machine does not let root mount a filesystem: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func freeBytes(t *testing.T, dir string) int64 {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	return int64(fs.Bavail) * fs.Bsize
}

// localRegistry is a registry on the loopback.
type localRegistry struct{ host string }

// startRegistry starts a registry, and tells the engines that are started afterwards that it has no TLS.
func startRegistry(t *testing.T) localRegistry {
	t.Helper()
	srv := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(srv.Close)
	r := localRegistry{strings.TrimPrefix(srv.URL, "http://")}
	conf := filepath.Join(t.TempDir(), "registries.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, "[[registry]]\nlocation = %q\ninsecure = true\n", r.host), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONTAINERS_REGISTRIES_CONF", conf)
	return r
}

// push puts the demo's runner image, with 2 MiB that no other image has, into the registry. It goes through the engine of the
// other tests, so that the small one has never seen it.
func (r localRegistry) push(t *testing.T, repository string) (ref string) {
	t.Helper()
	img, err := tarball.ImageFromPath(imageFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.AppendLayers(img, ballast(t)); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(r.host + "/" + repository)
	if err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(t.TempDir(), "image.tar")
	if err := tarball.WriteToFile(archive, tag, img); err != nil {
		t.Fatal(err)
	}
	podmanCommand(t, engine, "load", "--quiet", "--input", archive)
	podmanCommand(t, engine, "push", "--quiet", "--tls-verify=false", tag.String())
	podmanCommand(t, engine, "rmi", tag.String())
	return tag.String()
}

// ballast is a layer with one file that does not compress.
func ballast(t *testing.T) v1.Layer {
	t.Helper()
	data := make([]byte, 2<<20)
	if _, err := rand.Read(data); err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	err := errors.Join(w.WriteHeader(&tar.Header{Name: "ballast", Mode: 0o644, Size: int64(len(data)), Typeflag: tar.TypeReg}), write(w, data), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func write(w io.Writer, data []byte) error {
	_, err := w.Write(data)
	return err
}

func podmanCommand(t *testing.T, s *podman.Service, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "podman", append(s.Args(), args...)...)
	cmd.Env = s.Env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("podman %v: %v: %s", args, err, out)
	}
	return string(out)
}

// names are the names of the engine's images.
func names(t *testing.T, s *podman.Service) []string {
	t.Helper()
	return strings.Fields(podmanCommand(t, s, "images", "--format", "{{.Repository}}:{{.Tag}}"))
}

func problem(f *demo.Fleet, code problems.Code) *problems.Problem {
	for _, p := range f.Controller().Problems() {
		if p.Code == code {
			return &p
		}
	}
	return nil
}

// running is the one live runner.
func running(t *testing.T, st *store.Store) store.Runner {
	t.Helper()
	rs, err := st.Runners(t.Context(), store.RunnerFilter{Live: true})
	if err != nil || len(rs) != 1 {
		t.Fatalf("%d live runners, want one: %v", len(rs), err)
	}
	return rs[0]
}

func workloadLog(t *testing.T, f *demo.Fleet, id string) string {
	t.Helper()
	r, err := f.Agent().Backend().Logs(t.Context(), id, backend.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
