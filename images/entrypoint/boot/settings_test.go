package boot

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestReadSettings(t *testing.T) {
	t.Parallel()
	jit := EnvJITConfig + "=" + testJIT(t)
	reg := []string{EnvURL + "=https://github.example/acme", EnvToken + "=" + canary, EnvName + "=zoomies-a-1"}
	with := func(base []string, more ...string) []string { return append(slices.Clone(base), more...) }
	for name, tc := range map[string]struct {
		env  []string
		want string // part of the error; empty when it must be accepted
	}{
		"JIT":                     {env: []string{jit}},
		"JIT wins":                {env: with(reg, jit)},
		"registration":            {env: reg},
		"nothing":                 {env: nil, want: "no runner to start"},
		"unusable JIT":            {env: []string{EnvJITConfig + "=" + canary}, want: "not base64"},
		"no token":                {env: []string{reg[0], reg[2]}, want: EnvToken},
		"no name":                 {env: reg[:2], want: EnvName},
		"no URL":                  {env: reg[1:], want: EnvURL},
		"docker":                  {env: []string{jit, EnvDaemon + "=docker"}},
		"podman":                  {env: []string{jit, EnvDaemon + "=Podman"}},
		"none":                    {env: []string{jit, EnvDaemon + "=none"}},
		"another daemon":          {env: []string{jit, EnvDaemon + "=" + canary}, want: EnvDaemon},
		"wait of 1":               {env: []string{jit, EnvDaemon + "=docker", EnvWait + "=1"}},
		"wait of 3600":            {env: []string{jit, EnvDaemon + "=docker", EnvWait + "=3600"}},
		"wait of 0":               {env: []string{jit, EnvDaemon + "=docker", EnvWait + "=0"}, want: "1 to 3600"},
		"wait of 3601":            {env: []string{jit, EnvDaemon + "=docker", EnvWait + "=3601"}, want: "1 to 3600"},
		"wait of two minutes":     {env: []string{jit, EnvDaemon + "=docker", EnvWait + "=2m"}, want: "1 to 3600"},
		"wait of a fraction":      {env: []string{jit, EnvDaemon + "=docker", EnvWait + "=1.5"}, want: "1 to 3600"},
		"a wait without a daemon": {env: []string{jit, EnvWait + "=never"}},
		"a daemon over SSH":       {env: []string{jit, EnvDaemon + "=docker", "DOCKER_HOST=ssh://" + canary}, want: "DOCKER_HOST"},
		"a daemon with TLS":       {env: []string{jit, EnvDaemon + "=docker", "DOCKER_HOST=tcp://d:1", "DOCKER_TLS_VERIFY=1"}, want: "DOCKER_TLS_VERIFY"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := ReadSettings(tc.env)
			if (err == nil) != (tc.want == "") {
				t.Fatalf("error %v, want %q", err, tc.want)
			}
			if err != nil && (!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), canary)) {
				t.Fatalf("error %v", err)
			}
		})
	}
}

func TestSettingsDefaults(t *testing.T) {
	t.Parallel()
	s, err := ReadSettings([]string{EnvJITConfig + "=" + testJIT(t), EnvDaemon + "=podman", "CONTAINER_HOST=unix:///run/p.sock"})
	if err != nil {
		t.Fatal(err)
	}
	if s.Command != "/home/runner/run.sh" || s.DaemonWait != 120*time.Second || s.Endpoint.String() != "unix:///run/p.sock" {
		t.Fatalf("command %s, wait %s, endpoint %s", s.Command, s.DaemonWait, s.Endpoint)
	}
}

func TestRunnerEnvHoldsOnlyTheRunnersOwnInput(t *testing.T) {
	t.Parallel()
	jit := testJIT(t)
	s, err := ReadSettings([]string{
		"PATH=/bin", "ZOOMIES_POOL=small", EnvJITConfig + "= \"" + jit + "\"", EnvToken + "=" + canary,
		EnvCommand + "=/r/run.sh", EnvDaemon + "=podman", "DOCKER_HOST=tcp://d:1", "RUNNER_MANUALLY_TRAP_SIG=0",
		runnerInput + "TOKEN=" + canary,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := s.RunnerEnv()
	slices.Sort(got)
	want := []string{
		"ACTIONS_RUNNER_INPUT_JITCONFIG=" + jit,
		"ACTIONS_RUNNER_RETURN_VERSION_DEPRECATED_EXIT_CODE=1",
		"CONTAINER_HOST=tcp://d:1",
		"DOCKER_HOST=tcp://d:1",
		"PATH=/bin",
		"RUNNER_MANUALLY_TRAP_SIG=0",
		"ZOOMIES_DAEMON=podman",
		"ZOOMIES_POOL=small",
	}
	if !slices.Equal(got, want) {
		t.Fatalf("environment\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestClientIsLookedForByKind(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		kind, has string
		want      bool
	}{
		{DaemonDocker, "docker", true},
		{DaemonDocker, "podman", false},
		{DaemonPodman, "podman-remote", true},
		{DaemonPodman, "docker", true},
		{DaemonPodman, "", false},
	} {
		got := hasClient(tc.kind, func(name string) (string, error) {
			if name == tc.has {
				return "/bin/" + name, nil
			}
			return "", errNotBase64
		})
		if got != tc.want {
			t.Errorf("%s with client %q: %t", tc.kind, tc.has, got)
		}
	}
}
