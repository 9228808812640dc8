// Command fakedaemon stands in for dockerd and podman in a test's sidecar: it listens on the
// unix socket that its arguments name, answers /_ping, and shows that it shares the work
// directory with the runner. For tests only.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

const work = "/home/runner/_work"

func main() {
	if err := serve(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(args []string) error {
	socket := ""
	for _, arg := range args {
		if _, path, ok := strings.Cut(arg, "unix://"); ok {
			socket = path
		}
	}
	if err := os.WriteFile(work+"/daemon", []byte("here\n"), 0o644); err != nil {
		return fmt.Errorf("cannot write the shared directory: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	go report()
	http.HandleFunc("/_ping", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("OK")) })
	server := &http.Server{ReadHeaderTimeout: time.Second}
	return server.Serve(listener)
}

// report says what the runner wrote.
func report() {
	for range time.Tick(50 * time.Millisecond) {
		data, err := os.ReadFile(work + "/from-runner")
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		fmt.Printf("the runner says %s %v\n", strings.TrimSpace(string(data)), err)
		return
	}
}
