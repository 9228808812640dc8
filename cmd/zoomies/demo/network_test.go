package demo

import "testing"

func TestDefaultRouteIsFound(t *testing.T) {
	t.Parallel()
	const head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	const local = "ens3\t0002000A\t00000000\t0001\t0\t0\t1024\t00FFFFFF\t0\t0\t0\n"
	for name, c := range map[string]struct {
		table string
		want  bool
	}{
		"none at all":   {head, false},
		"its own net":   {head + local, false},
		"half of all":   {head + "tun0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n", false},
		"to everywhere": {head + local + "ens3\t00000000\t0202000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n", true},
	} {
		if got := defaultRoute(c.table); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
