// Command apigen writes what comes from the API's typed handlers: its OpenAPI description, the Go client's types and calls, and the
// table of operations that the command line's flags come from. A test fails when one of them differs from what it would write. It
// must never describe an operation that no handler serves.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/zoomies-fleet/zoomies/controller/api"
)

// The descriptions, below the root of the tree.
const (
	described = "docs/reference/openapi.yaml"
	released  = "docs/reference/openapi.released.yaml"
)

// output is one generated file.
type output struct {
	path   string // below the root of the tree
	render func(*api.Server) ([]byte, error)
}

var outputs = []output{
	{described, func(s *api.Server) ([]byte, error) { return s.OpenAPI().YAML() }},
	{"client/rest/rest.gen.go", clientCode},
	{"cmd/zoomies/cli/operations.gen.go", operationTable},
}

func main() {
	root := flag.String("root", ".", "root of the tree")
	release := flag.Bool("release", false, "copy the description to the one that later changes are compared with")
	flag.Parse()
	err := write(*root)
	if *release {
		err = errors.Join(err, copyReleased(*root))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "apigen:", err)
		os.Exit(1)
	}
}

// server is an API with no store and no fleet behind it: its handlers are described and never called.
func server() *api.Server { return api.New(api.Options{Version: "docs"}) }

func write(root string) error {
	s := server()
	for _, o := range outputs {
		text, err := o.render(s)
		if err != nil {
			return fmt.Errorf("cannot write %s: %w", o.path, err)
		}
		path := filepath.Join(root, o.path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("cannot make the file's folder: %w", err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return fmt.Errorf("cannot write the file: %w", err)
		}
	}
	return nil
}

func copyReleased(root string) error {
	text, err := os.ReadFile(filepath.Join(root, described))
	if err != nil {
		return fmt.Errorf("cannot read the description: %w", err)
	}
	return os.WriteFile(filepath.Join(root, released), text, 0o644) //nolint:gosec // a file of the tree, for everybody to read
}
