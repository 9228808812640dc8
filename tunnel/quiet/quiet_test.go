package quiet_test

import (
	"testing"

	"tailscale.com/envknob"
	"tailscale.com/net/dnsfallback"

	_ "github.com/zoomies-fleet/zoomies/tunnel/quiet"
)

func TestQuiet(t *testing.T) {
	if !envknob.NoLogsNoSupport() {
		t.Error("logs would be sent to the vendor")
	}
	if !envknob.Bool("TS_DISABLE_PORTMAPPER") {
		t.Error("the router would be asked to open ports")
	}
	if n := len(dnsfallback.GetDERPMap().Regions); n != 0 {
		t.Errorf("a name that cannot be resolved would be asked of %d of the vendor's regions", n)
	}
}
