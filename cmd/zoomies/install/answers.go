// Package install puts a controller on a machine with systemd and takes it off again. What to do is planned from answers and facts
// alone and can be printed; hands carry the steps out, and a manifest keeps what was made, so that nothing else is ever removed.
package install

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Answers are what the operator decides.
type Answers struct {
	DataDir string
	Listen  string
	Backend string // of the embedded agent: podman, docker, process, or none for no agent
	GitHub  string // now or later
	Boot    bool   // start with the machine
}

// Backends are the words that Answers.Backend takes.
var Backends = []string{"podman", "docker", "process", "none"}

// Defaults are the answers of somebody who only presses return.
func Defaults() Answers {
	return Answers{DataDir: "/var/lib/zoomies", Listen: ":8443", Backend: "podman", GitHub: "later", Boot: true}
}

// forbidden are folders that a machine keeps other things in.
var forbidden = []string{"/", "/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/usr/local", "/var", "/var/lib", "/var/tmp"}

func checkDataDir(text string) error {
	switch {
	case !filepath.IsAbs(text), filepath.Clean(text) != text, strings.ContainsAny(text, " \t\n\"'\\%$:"):
		return fmt.Errorf("%q is not an absolute path of plain characters, such as /var/lib/zoomies", text)
	case slices.Contains(forbidden, text), strings.HasPrefix(text, "/home/"), strings.HasPrefix(text, "/root/"), strings.HasPrefix(text, "/tmp/"), strings.HasPrefix(text, "/run/"):
		return fmt.Errorf("%s is no place for a service's data; use a folder of its own, such as /var/lib/zoomies", text)
	}
	return nil
}

func checkListen(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		var n uint64
		if n, err = strconv.ParseUint(port, 10, 16); err == nil && n == 0 {
			err = errors.New("a service needs a port that stays")
		}
	}
	if err != nil || strings.ContainsAny(text, " \"'\\") {
		return fmt.Errorf("%q is not an address and a port, such as :8443 or 127.0.0.1:8080", text)
	}
	return nil
}

func oneOf(words ...string) func(string) error {
	return func(text string) error {
		if !slices.Contains(words, text) {
			return fmt.Errorf("%q is not one of %s", text, strings.Join(words, ", "))
		}
		return nil
	}
}

// question is one answer: how it is asked for, and the flag that gives it.
type question struct {
	flag, text string
	get        func(Answers) string
	set        func(*Answers, string)
	check      func(string) error
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// questions are all that is ever asked.
var questions = []question{
	{"data-dir", "Folder for the data", func(a Answers) string { return a.DataDir }, func(a *Answers, s string) { a.DataDir = s }, checkDataDir},
	{"listen", "Address to listen on (with TLS unless it is this machine's loopback)", func(a Answers) string { return a.Listen }, func(a *Answers, s string) { a.Listen = s }, checkListen},
	{
		"agent", "Run jobs on this machine too, with " + strings.Join(Backends[:3], ", ") + ", or none", func(a Answers) string { return a.Backend },
		func(a *Answers, s string) { a.Backend = s }, oneOf(Backends...),
	},
	{"github", "Connect GitHub now or later", func(a Answers) string { return a.GitHub }, func(a *Answers, s string) { a.GitHub = s }, oneOf("now", "later")},
	{"boot", "Start with the machine, yes or no", func(a Answers) string { return yesNo(a.Boot) }, func(a *Answers, s string) { a.Boot = s == "yes" }, oneOf("yes", "no")},
}

// answer fills in what flags say, and asks for the rest unless in is nil. It asks again for what it cannot use.
func answer(a Answers, flags map[string]string, in io.Reader, out io.Writer) (Answers, error) {
	var lines *bufio.Scanner
	if in != nil {
		lines = bufio.NewScanner(in)
	}
	for _, q := range questions {
		if text, given := flags[q.flag]; given {
			if err := q.check(text); err != nil {
				return a, fmt.Errorf("cannot use --%s: %w", q.flag, err)
			}
			q.set(&a, text)
			continue
		}
		for lines != nil {
			fmt.Fprintf(out, "%s [%s]: ", q.text, q.get(a))
			if !lines.Scan() {
				return a, errors.Join(errors.New("nobody answers: use --yes for the defaults"), lines.Err())
			}
			text := strings.TrimSpace(lines.Text())
			if text == "" {
				break
			}
			if err := q.check(text); err != nil {
				fmt.Fprintln(out, err)
				continue
			}
			q.set(&a, text)
			break
		}
	}
	return a, nil
}

// port is the number at the end of the listen address.
func (a Answers) port() int {
	_, port, _ := net.SplitHostPort(a.Listen) // checked when it was given
	n, _ := strconv.Atoi(port)
	return n
}
