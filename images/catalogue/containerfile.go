package catalogue

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"text/template"
)

//go:embed Containerfile.tmpl
var containerfileText string

var containerfile = template.Must(template.New("Containerfile").Funcs(template.FuncMap{
	"lines": func(packages []string) string { return strings.Join(packages, " \\\n        ") },
}).Parse(containerfileText))

// Containerfile is the recipe of the images of s: one target for each client.
func (c Catalogue) Containerfile(s System) ([]byte, error) {
	type variant struct {
		Name     string
		Packages []string
	}
	var variants []variant
	for _, client := range Clients()[1:] {
		packages := slices.Clone(s.Clients[client])
		slices.Sort(packages)
		variants = append(variants, variant{string(client), packages})
	}
	var buf bytes.Buffer
	err := containerfile.Execute(&buf, map[string]any{
		"System": s, "Runner": c.Runner, "Packages": c.PackagesOf(s, NoClient), "Variants": variants,
		"AMD64": c.Runner.Archives[AMD64], "ARM64": c.Runner.Archives[ARM64], "Labels": c.Labels(NoClient),
	})
	if err != nil {
		return nil, fmt.Errorf("cannot make the Containerfile of %s: %w", s.Title, err)
	}
	return buf.Bytes(), nil
}

// Labels that every way of building puts on an image, by which an agent knows its age.
const (
	LabelVersion  = "io.zoomies.image.runner-version"
	LabelReleased = "io.zoomies.image.runner-released"
	LabelClient   = "io.zoomies.image.client" // none, docker, podman
)

// Labels of an image with client.
func (c Catalogue) Labels(client Client) map[string]string {
	if client == NoClient {
		client = "none"
	}
	return map[string]string{
		LabelVersion: c.Runner.Version, LabelReleased: c.Runner.Released.String(), LabelClient: string(client),
	}
}
