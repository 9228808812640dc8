// Command apidiff compares two OpenAPI descriptions and names what a caller of the first could no longer do with the second. It
// must never judge whether that is worth it: a test asks for a new major version.
package main

import (
	"fmt"
	"os"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oasdiff/oasdiff/checker"
	"github.com/oasdiff/oasdiff/diff"
	"github.com/oasdiff/oasdiff/load"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: apidiff RELEASED NOW")
		os.Exit(2)
	}
	broken, err := breaking(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "apidiff:", err)
		os.Exit(2)
	}
	for _, b := range broken {
		fmt.Println(b)
	}
	if len(broken) > 0 {
		os.Exit(1)
	}
}

// breaking lists the changes between two files that break a caller.
func breaking(released, now string) ([]string, error) {
	loader := openapi3.NewLoader()
	s1, err := load.NewSpecInfo(loader, load.NewSource(released))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", released, err)
	}
	s2, err := load.NewSpecInfo(loader, load.NewSource(now))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", now, err)
	}
	d, sources, err := diff.GetWithOperationsSourcesMap(diff.NewConfig(), s1, s2)
	if err != nil {
		return nil, fmt.Errorf("cannot compare the descriptions: %w", err)
	}
	conf := checker.NewConfig(checker.GetAllChecks())
	var out []string
	for _, c := range checker.CheckBackwardCompatibility(conf, d, sources) {
		if c.IsBreaking() {
			out = append(out, fmt.Sprintf("%s %s: %s", c.GetOperation(), c.GetPath(), c.GetUncolorizedText(checker.NewDefaultLocalizer())))
		}
	}
	return out, nil
}
