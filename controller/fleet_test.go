package controller_test

import (
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/config"
)

// ApplySettings takes over nothing: a setting that promises to count at once needs it to.
func TestNoSettingCountsAtOnceYet(t *testing.T) {
	t.Parallel()
	for _, s := range config.Registry() {
		if s.Effect != config.Restart {
			t.Errorf("%s says %s: have ApplySettings take it over, and replace this test by one of that", s.Key, s.Effect)
		}
	}
}
