package config

import "fmt"

// Severity says whether a controller may start with a finding.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // the controller does not start
	Warning Severity = "warning" // it starts, and the problem list shows it
)

// Finding is one way in which the settings differ from the safe defaults.
type Finding struct {
	Severity Severity
	Code     string // stable, dotted: listen.no_tls
	Title    string // a short sentence
	Why      string // what can go wrong
	Fix      string // what to do
	Key      string // the setting to change; empty when it is none
}

// String is one line for a log or a terminal.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s %s %s", f.Severity, f.Title, f.Why, f.Fix)
}

// Codes of findings.
const (
	CodeListenInvalid      = "listen.invalid"
	CodePublicURLInvalid   = "public_url.invalid"
	CodeListenNoTLS        = "listen.no_tls"
	CodeTLSIncomplete      = "tls.incomplete"
	CodeProxiesInvalid     = "http.proxies_invalid"
	CodeProxiesAll         = "http.proxies_all"
	CodeFileUnreadable     = "file.unreadable"
	CodeSecretExposed      = "secrets.exposed"
	CodeDataDirWritable    = "data_dir.writable"
	CodeSettingsWritable   = "settings_file.writable"
	CodePollOff            = "github.poll_off"
	CodeMintsHigh          = "github.mints_high"
	CodeProvisionShort     = "scheduler.provision_short"
	CodeProvisionLong      = "scheduler.provision_long"
	CodeNoBackend          = "agent.no_backend"
	CodeBackendProcess     = "agent.backend_process"
	CodeBackendDocker      = "agent.backend_docker"
	CodeRootfulSocket      = "agent.rootful_socket"
	CodeHeartbeatSlow      = "agent.heartbeat_slow"
	CodeRunnerSecret       = "runners.env_secret"
	CodeRunnerReservedName = "runners.env_reserved"
	CodeUnknownVariable    = "settings.unknown_variable"
	CodeUnknownDatabaseKey = "settings.unknown_database_key"
)

// Errors reports whether any finding keeps the controller from starting.
func Errors(findings []Finding) bool {
	for _, f := range findings {
		if f.Severity == Error {
			return true
		}
	}
	return false
}
