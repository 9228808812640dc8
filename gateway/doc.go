// Package gateway is the provider-side end of a private connection: it runs beside a hypervisor that the controller cannot reach, and
// passes the tunnel's connections on to that one API, byte for byte. It must never end TLS, read what passes, or reach anything but
// its one target; and it knows nothing of the fleet.
package gateway
