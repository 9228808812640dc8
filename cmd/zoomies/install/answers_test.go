package install

import (
	"strings"
	"testing"
)

func TestAnswersAreAskedForOnceEach(t *testing.T) {
	t.Parallel()
	if len(questions) > 5 {
		t.Errorf("%d questions", len(questions))
	}
	var out strings.Builder
	a, err := answer(Defaults(), map[string]string{"github": "now"}, strings.NewReader("\n99\n:443\nlxc\nnone\nno\n"), &out)
	want := Answers{DataDir: "/var/lib/zoomies", Listen: ":443", Backend: "none", GitHub: "now"}
	if err != nil || a != want {
		t.Errorf("%+v, %v", a, err)
	}
	if strings.Contains(out.String(), "GitHub") || strings.Count(out.String(), "]: ") != 6 || !strings.Contains(out.String(), "lxc") {
		t.Errorf("asked what a flag says, or did not say what was wrong:\n%s", out.String())
	}
	if _, err := answer(Defaults(), nil, strings.NewReader("\n"), &out); err == nil || !strings.Contains(err.Error(), "--yes") {
		t.Errorf("nobody answers: %v", err)
	}
	if a, err := answer(Defaults(), nil, nil, nil); err != nil || a != Defaults() {
		t.Errorf("nothing is asked: %+v, %v", a, err)
	}
}

// What is removed later, and what goes into a unit and a settings file, must be plain.
func TestAnswersThatAreRefused(t *testing.T) {
	t.Parallel()
	for flag, values := range map[string][]string{
		"data-dir": {"", "/", "/var", "/var/lib", "/etc", "/home/me", "relative", "/var/lib/../..", "/var/lib/zoomies/", "/srv/a b", "/srv/a\nb", "/srv/%n", "/usr/local"},
		"listen":   {"", "8080", "host", ":0", ":70000", "a b:80", "\":80"},
		"agent":    {"", "lxc"}, "github": {"never"}, "boot": {"true"},
	} {
		for _, v := range values {
			if a, err := answer(Defaults(), map[string]string{flag: v}, nil, nil); err == nil || !strings.Contains(err.Error(), "--"+flag) {
				t.Errorf("--%s %q: %+v, %v", flag, v, a, err)
			}
		}
	}
	for _, d := range []string{Defaults().DataDir, "/srv/zoomies", "/opt/zoomies", "/data"} {
		if err := checkDataDir(d); err != nil {
			t.Error(err)
		}
	}
}
