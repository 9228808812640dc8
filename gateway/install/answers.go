// Package install connects the Proxmox VE of the node that it runs on to a controller: it makes there what the connection needs and
// nothing more, and starts a gateway as a service of its own. What to do is planned from facts and can be printed; a journal keeps
// what was made, so that nothing else is ever removed. It must never touch an agent of the same machine.
package install

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Answers are what the controller's command says.
type Answers struct {
	Name       string   // of the connection
	Controller string   // where the controller takes the completion
	Pool       string   // the resource pool that machines are made in
	Storages   []string // that machines may use; empty chooses
	Bridge     string   // that machines are connected to
	Relay      string   // the controller's relay, as the tunnel has it
	Admit      string   // the controller's key: the gateway's only client
	// Capability is the setup's secret. It is never written down, printed, or given to another process.
	Capability string
}

// Defaults of what the command may leave out.
const (
	DefaultPool   = "zoomies"
	DefaultBridge = "vmbr0"
)

// User owns the token. It has no password, so nobody signs in as it.
const User = "zoomies@pve"

// TokenID is the connection's token, in full.
func (a Answers) TokenID() string { return User + "!" + a.Name }

var (
	nameForm    = regexp.MustCompile(`^[a-z][a-z0-9-]{0,38}[a-z0-9]$`)
	poolForm    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`)
	storageForm = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*[A-Za-z0-9]$`)
	bridgeForm  = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,14}$`)
	tunnelForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9+/=_.:,@\[\]~-]*$`)
)

// Check refuses answers that nothing could be made of. What stands in the way on the machine is said by its facts.
func (a Answers) Check() error {
	var bad []error
	want := func(ok bool, flag, value, what string) {
		if !ok {
			bad = append(bad, fmt.Errorf("--%s %.60q is not %s", flag, value, what))
		}
	}
	want(nameForm.MatchString(a.Name), "name", a.Name, "2 to 40 lower-case letters, digits and hyphens")
	want(poolForm.MatchString(a.Pool), "pool", a.Pool, "the name of a resource pool")
	for _, s := range a.Storages {
		want(storageForm.MatchString(s), "storage", s, "the name of a storage")
	}
	want(bridgeForm.MatchString(a.Bridge), "bridge", a.Bridge, "the name of a bridge, such as vmbr0")
	want(tunnelForm.MatchString(a.Relay), "relay", a.Relay, "the controller's relay, as its command has it")
	want(tunnelForm.MatchString(a.Admit), "admit", a.Admit, "the controller's key, as its command has it")
	want(strings.HasPrefix(a.Controller, "https://"), "controller", a.Controller, "an address such as https://zoomies.example.org:8443")
	if err := errors.Join(bad...); err != nil {
		return fmt.Errorf("cannot use the command: %w; copy it whole, or have the controller make another", err)
	}
	return nil
}

// Connection is what the controller gets to know, once.
type Connection struct {
	Endpoint    string   `json:"endpoint"`     // https://name:8006, as the certificate has the name
	CA          string   `json:"ca,omitempty"` // PEM of what the certificate must come from; empty for an authority that everybody knows
	Fingerprint string   `json:"fingerprint"`  // of the certificate itself: sha256:<hex>
	Node        string   `json:"node"`         // that the gateway runs on
	Version     string   `json:"version"`      // of Proxmox VE
	TokenID     string   `json:"token_id"`     // user@realm!name
	TokenSecret string   `json:"token_secret"` // a UUID
	Gateway     string   `json:"gateway"`      // the gateway's address in the tunnel
	Pool        string   `json:"pool"`         //
	Storages    []string `json:"storages"`     //
	Bridge      string   `json:"bridge"`       //
}
