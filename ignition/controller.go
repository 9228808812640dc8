package ignition

import (
	"bytes"
	"errors"
	"fmt"

	"gopkg.in/yaml.v3"
)

// Controller is a machine that runs the control plane. Its program and unit are in the image already.
type Controller struct {
	Machine
	Settings []byte // zoomies.yaml; empty leaves every setting at its default. It holds no secret
}

// Places of a controller.
const (
	SettingsPath   = etcDir + "/zoomies.yaml"
	ControllerUnit = "zoomies.service"
)

const maxSettings = 1 << 20

// Render makes the controller's config.
func (ct Controller) Render() ([]byte, error) {
	var c config
	if err := ct.add(&c, dataDir); err != nil {
		return nil, err
	}
	c.dir(etcDir, 0o755)
	if len(ct.Settings) > maxSettings {
		return nil, fmt.Errorf("cannot use the settings file: it has %d bytes, and %d are the most", len(ct.Settings), maxSettings)
	}
	if len(bytes.TrimSpace(ct.Settings)) > 0 {
		var settings map[string]any
		if err := yaml.Unmarshal(ct.Settings, &settings); err != nil {
			return nil, errors.New("cannot use the settings file: it is no YAML of names and values; `zoomies controller --config FILE` says more")
		}
		c.file(SettingsPath, 0o644, string(ct.Settings))
	}
	c.unit(ControllerUnit, "")
	return c.render()
}
