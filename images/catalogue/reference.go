package catalogue

import (
	"fmt"
	"strings"
)

// Image is one image of the catalogue.
type Image struct {
	System    System
	Client    Client
	Reference string // moves with each build
	Pinned    string // names the runner's version too
}

// Images lists every image, system by system.
func (c Catalogue) Images() []Image {
	var all []Image
	for _, s := range c.Systems {
		for _, client := range Clients() {
			all = append(all, Image{System: s, Client: client, Reference: c.reference(s, client), Pinned: c.pinned(s, client)})
		}
	}
	return all
}

// Resolve returns the reference of the image for a pool that names no image: of the platform
// it asks for ("" is the default) with the client that its daemon needs.
func (c Catalogue) Resolve(platform string, client Client) (string, error) {
	s, err := c.System(platform)
	if err != nil {
		return "", err
	}
	if _, ok := s.Clients[client]; client != NoClient && !ok {
		return "", fmt.Errorf("there is no runner image of %s with a %s client", s.Title, client)
	}
	return c.reference(s, client), nil
}

// WithClient returns the variant of ref that has client. It is an error when ref is not one
// of this catalogue's references: another image, a digest, or another build's pin, for which
// nobody knows whether the variant exists.
func (c Catalogue) WithClient(ref string, client Client) (string, error) {
	for _, s := range c.Systems {
		for _, has := range Clients() {
			switch ref {
			case c.reference(s, has):
				return c.Resolve(s.ID, client)
			case c.pinned(s, has):
				return c.pinned(s, client), nil
			}
		}
	}
	return "", fmt.Errorf("cannot tell which variant of the image %s has a %s client; name that image in the pool", ref, client)
}

func (c Catalogue) reference(s System, client Client) string {
	return c.Repository + ":" + tag(s, client)
}

func (c Catalogue) pinned(s System, client Client) string {
	return c.Repository + ":" + tag(s, client) + "-" + c.Runner.Version
}

func tag(s System, client Client) string {
	return strings.TrimSuffix(s.ID+"-"+string(client), "-")
}
