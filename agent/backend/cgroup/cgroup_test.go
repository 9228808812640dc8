package cgroup

import (
	"errors"
	"os"
	"testing"
)

func TestAProcessElsewhereIsForeign(t *testing.T) {
	t.Parallel()
	if _, err := Read(os.Getpid(), "0123456789abcdef0123456789abcdef"); !errors.Is(err, ErrForeign) {
		t.Errorf("our own cgroup passes for a container's: %v", err)
	}
	if _, err := Read(os.Getpid(), ""); !errors.Is(err, ErrForeign) {
		t.Errorf("no ID passes: %v", err)
	}
}

func TestAContainersCgroupIsTheWholeOfIt(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/libpod_parent/libpod-abc123":                     "/libpod_parent/libpod-abc123",
		"/machine.slice/libpod-abc123.scope/container":     "/machine.slice/libpod-abc123.scope",
		"/system.slice/docker-abc123.scope/nested/deeper":  "/system.slice/docker-abc123.scope",
		"/outer/libpod-abc123/inner/libpod-def456/further": "/outer/libpod-abc123",
	} {
		if got, err := container(path, "abc123"); got != want || err != nil {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}
