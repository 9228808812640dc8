package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zoomies-fleet/zoomies/agent/backend"
)

// script is an engine that answers as it is told and writes down what it is asked.
type script struct {
	mu         sync.Mutex
	asked      []string
	containers []Container
	volumes    []Volume
	fail       map[string][]error // by call, the first first
	exits      []State            // of the commands in a container, the first first
}

func (s *script) ask(call string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, call)
	if left := s.fail[call]; len(left) > 0 {
		s.fail[call] = left[1:]
		return left[0]
	}
	return nil
}

func (s *script) Containers(_ context.Context, labels map[string]string) ([]Container, error) {
	var out []Container
	for _, c := range s.containers {
		if want, ok := labels[backend.LabelRunner]; !ok || c.Labels[backend.LabelRunner] == want {
			out = append(out, c)
		}
	}
	return out, s.ask("containers")
}

func (s *script) Volumes(context.Context) ([]Volume, error) { return s.volumes, s.ask("volumes") }

func (s *script) RemoveContainer(ctx context.Context, id string) error {
	return errors.Join(ctx.Err(), s.ask("remove "+id))
}

func (s *script) RemoveVolume(ctx context.Context, name string) error {
	return errors.Join(ctx.Err(), s.ask("remove volume "+name))
}

func (s *script) request(id, image string) Request {
	return Request{Image: image, Make: func(context.Context) (string, error) { return id, s.ask("make " + id) }}
}

func (s *script) Runner(spec backend.Spec, sidecar string) (Request, error) {
	return s.request("runner", spec.Image), s.ask("runner in " + sidecar)
}

func (s *script) Daemon(spec backend.Spec) (Request, error) {
	return s.request("daemon", spec.Daemon.Image), s.ask("daemon")
}

func (s *script) Start(_ context.Context, id string) error   { return s.ask("start " + id) }
func (s *script) Pull(_ context.Context, image string) error { return s.ask("pull " + image) }

func (s *script) MakeVolume(_ context.Context, name string, _ map[string]string) (string, error) {
	return "", s.ask("make volume " + name)
}

func (s *script) State(context.Context, string) (State, error) {
	return State{ExitCode: 3}, s.ask("state")
}

func (s *script) Logs(context.Context, string, backend.LogOptions) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("its last words\n")), s.ask("logs")
}

func (s *script) Exec(context.Context, string, []string) (string, error) { return "x", s.ask("exec") }

func (s *script) ExecState(context.Context, string, []string) (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := s.exits[0]
	s.exits = s.exits[1:]
	return state, nil
}

func labels(runner, role string) map[string]string {
	return map[string]string{
		backend.LabelManaged: "true", backend.LabelHost: "hst_1", backend.LabelRunner: runner, backend.LabelRole: role,
	}
}

func create(t *testing.T, s *script, spec backend.Spec) (backend.Workload, error) {
	t.Helper()
	r := &Runners{HostID: "hst_1", Now: time.Now}
	spec, end, err := r.Begin(spec)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	return r.Create(t.Context(), s, spec, true)
}

func plain() backend.Spec {
	return backend.Spec{Name: "zoomies-1", RunnerID: "run_1", PoolID: "pol_1", Image: "img"}
}

func TestACreateAsksNoMoreThanItMust(t *testing.T) {
	t.Parallel()
	s := &script{}
	w, err := create(t, s, plain())
	if err != nil || w.ID != "runner" || w.Phase != backend.Running || w.RunnerID != "run_1" || w.StartedAt.IsZero() {
		t.Fatalf("%+v, %v", w, err)
	}
	slices.Sort(s.asked)
	if want := []string{"containers", "make runner", "runner in ", "start runner"}; !slices.Equal(s.asked, want) {
		t.Errorf("it asked %q", s.asked)
	}
}

func TestAnImageIsPulledWhenTheCreateMissesIt(t *testing.T) {
	t.Parallel()
	for policy, pulls := range map[string]int{"": 1, backend.PullMissing: 1, backend.PullNever: 0, backend.PullAlways: 1} {
		s := &script{fail: map[string][]error{"make runner": {backend.ErrImage}}}
		spec := plain()
		spec.Policy = policy
		_, err := create(t, s, spec)
		if got := count(s.asked, "pull img"); got != pulls {
			t.Errorf("policy %q: %d pulls", policy, got)
		}
		// One that was pulled beforehand, or must not be, is not there after another try either.
		if missing := policy == backend.PullNever || policy == backend.PullAlways; errors.Is(err, backend.ErrImage) != missing {
			t.Errorf("policy %q: %v", policy, err)
		}
	}
}

func TestOfAFailedCreateNothingIsLeft(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	other := Container{ID: "other", Name: "zoomies-2", Labels: labels("run_1", backend.RoleRunner)}
	withDaemon := plain()
	withDaemon.Daemon = &backend.Daemon{Kind: "docker", Image: "dind", Wait: time.Second}
	for _, c := range []struct {
		name   string
		spec   backend.Spec
		script *script
		want   error
		undone []string
	}{
		{"another workload of the runner", plain(), &script{containers: []Container{other}}, backend.ErrExists, []string{"remove runner"}},
		{"no create", plain(), &script{fail: map[string][]error{"make runner": {broken}}}, broken, nil},
		{"no start", plain(), &script{fail: map[string][]error{"start runner": {broken}}}, broken, []string{"remove runner"}},
		{"another before the sidecar", withDaemon, &script{containers: []Container{other}}, backend.ErrExists, nil},
		{
			"no second volume", withDaemon,
			&script{fail: map[string][]error{"make volume " + withDaemon.DataVolume(): {broken}}}, broken,
			[]string{"remove volume " + withDaemon.WorkVolume(), "remove volume " + withDaemon.ExternalsVolume()},
		},
		{
			"no start of the sidecar", withDaemon, &script{fail: map[string][]error{"start daemon": {broken}}}, broken,
			[]string{
				"remove daemon", "remove volume " + withDaemon.WorkVolume(), "remove volume " + withDaemon.ExternalsVolume(),
				"remove volume " + withDaemon.DataVolume(), "remove volume " + withDaemon.SocketVolume(),
			},
		},
	} {
		_, err := create(t, c.script, c.spec)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		var undone []string
		for _, call := range c.script.asked {
			if strings.HasPrefix(call, "remove ") {
				undone = append(undone, call)
			}
		}
		if !slices.Equal(undone, c.undone) {
			t.Errorf("%s: undone %q, want %q", c.name, undone, c.undone)
		}
	}
}

func TestASidecarThatEndedSaysWhy(t *testing.T) {
	t.Parallel()
	c := creation{Maker: &script{}}
	if err := c.daemonAlive(t.Context(), "daemon"); err == nil || err.Error() != "it ended with code 3: its last words" {
		t.Errorf("it says %v", err)
	}
}

func TestACommandInASidecarIsWaitedFor(t *testing.T) {
	t.Parallel()
	for code, want := range map[int]string{0: "<nil>", 2: "sh ended with code 2"} {
		c := creation{Maker: &script{exits: []State{{Running: true}, {ExitCode: code}}}}
		if err := c.exec(t.Context(), "daemon", []string{"sh"}); fmt.Sprint(err) != want {
			t.Errorf("code %d: %v", code, err)
		}
	}
}

func count(calls []string, call string) int {
	n := 0
	for _, c := range calls {
		if c == call {
			n++
		}
	}
	return n
}
