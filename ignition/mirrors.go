package ignition

import (
	"fmt"
	"regexp"
	"strings"
)

// Mirror says where else the images of a registry can be had.
type Mirror struct {
	Registry string // such as docker.io, or docker.io/library
	Mirror   string // such as mirror.example.test:5000, or with a path
	Insecure bool   // plain HTTP, or a certificate that nobody vouches for
}

var placeForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:[0-9]{1,5})?(/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)*$`)

// mirrors writes a drop-in for Podman. The registry itself is asked when no mirror has an image.
func mirrors(c *config, list []Mirror) error {
	if len(list) == 0 {
		return nil
	}
	var order []string
	text := map[string]*strings.Builder{}
	for _, m := range list {
		for _, place := range []string{m.Registry, m.Mirror} {
			if !placeForm.MatchString(place) {
				return fmt.Errorf("cannot use %q as a registry: write host[:port][/path], without https://", place)
			}
		}
		b, ok := text[m.Registry]
		if !ok {
			b = &strings.Builder{}
			fmt.Fprintf(b, "[[registry]]\nprefix = %q\nlocation = %q\n", m.Registry, m.Registry)
			order, text[m.Registry] = append(order, m.Registry), b
		}
		fmt.Fprintf(b, "\n[[registry.mirror]]\nlocation = %q\ninsecure = %t\n", m.Mirror, m.Insecure)
	}
	var out []string
	for _, r := range order {
		out = append(out, text[r].String())
	}
	c.file("/etc/containers/registries.conf.d/50-zoomies.conf", 0o644, strings.Join(out, "\n"))
	return nil
}
