package problems

import (
	"strings"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/config"
)

// prefixConfig is in front of the code of a finding about the settings.
const prefixConfig = "config."

// reset is the remedy for a setting that is worse than its default.
var reset = &Remedy{
	Summary: "Take the setting out of the fleet's database, so that its default counts unless a file or a variable sets it", Operation: "reset-setting",
	Command: "zoomies settings reset {subject}",
}

// findings are the problems that the settings themselves can be: what config.Validate finds. Those of severity Error keep a controller
// from starting, so they stand in its output and never in its list.
var findings = byFinding([]Kind{
	{Code: config.CodeListenInvalid, Severity: Error, Title: "The address to listen on is none",
		Why: "The controller could not serve webhooks or agents.", Fix: "Write listen as host:port, such as 127.0.0.1:8080."},
	{Code: config.CodePublicURLInvalid, Severity: Error, Title: "public_url is not the address of a controller",
		Why: "Browsers and GitHub would be sent there, with what proves who they are.", Fix: "Write https://HOST or https://HOST:PORT, without a path. Plain http is for this machine alone."},
	{Code: config.CodeProxiesInvalid, Severity: Error, Title: "http.trusted_proxies holds what is no network",
		Why: "The controller could not tell a client's address from a proxy's.", Fix: "Write the addresses or networks of the proxies, such as 127.0.0.1 or 10.0.0.0/8."},
	{Code: config.CodeProxiesAll, Severity: Warning, Title: "Every address counts as a proxy",
		Why: "Whoever asks can say from where: limits on failed sign-ins no longer hold, and the audit log shows what they wrote.", Fix: "Name the addresses of the proxies alone.", Remedy: reset},
	{Code: config.CodeListenNoTLS, Severity: Warning, Title: "The controller listens beyond this machine without TLS",
		Why: "Agent tokens and runner credentials cross the network in the clear.", Fix: "Set tls.cert_file and tls.key_file, or listen on 127.0.0.1 behind a proxy that ends TLS."},
	{Code: config.CodeTLSIncomplete, Severity: Error, Title: "Only one of tls.cert_file and tls.key_file is set",
		Why: "TLS needs the certificate and its key.", Fix: "Set both, or neither."},
	{Code: config.CodeFileUnreadable, Severity: Error, Title: "A file that a setting names cannot be used",
		Why: "The controller cannot do without it.", Fix: "Correct the path, or remove the setting."},
	{Code: config.CodeSecretExposed, Severity: Error, Title: "Other users of the machine can read a secret file",
		Why: "Whoever reads it can read what it protects.", Fix: "Give the file the mode 0600, and replace the key if others may have read it."},
	{Code: config.CodeDataDirWritable, Severity: Error, Title: "Other users of the machine can write to the data folder",
		Why: "Whoever can replace the database or its keys owns the fleet.", Fix: "Take the right to write away from group and others."},
	{Code: config.CodeSettingsWritable, Severity: Error, Title: "Other users of the machine can write to the settings file",
		Why: "Whoever can change the settings can change what every runner is given.", Fix: "Take the right to write away from group and others."},
	{Code: config.CodePollOff, Severity: Warning, Title: "The fallback poller is off",
		Why: "A job whose webhook is lost waits until its run is cancelled, and nothing says so.", Fix: "Set github.poll_fallback to true.", Remedy: reset},
	{Code: config.CodeMintsHigh, Severity: Warning, Title: "More registrations a minute are allowed than GitHub sustains",
		Why: "GitHub allows 10,000 an hour. Past that it refuses every runner for the rest of the hour.", Fix: "Lower github.mints_per_minute.", Remedy: reset},
	{Code: config.CodeProvisionShort, Severity: Warning, Title: "Runners are given up before they can have started",
		Why: "A runner that does what it was told to do is failed and replaced, again and again.",
		Fix: "Raise scheduler.provision_timeout above the sum of runners.create_timeout and runners.docker_wait, or lower one of those.", Remedy: reset},
	{Code: config.CodeProvisionLong, Severity: Warning, Title: "Runners may take longer to start than their create is held",
		Why: "A host that lost a create may be asked again for a runner that nothing waits for any more.", Fix: "Lower scheduler.provision_timeout.", Remedy: reset},
	{Code: config.CodeNoBackend, Severity: Error, Title: "The embedded agent has no backend",
		Why: "It could start no runner.", Fix: "Set agent.backends to podman, or agent.embedded to false."},
	{Code: config.CodeBackendProcess, Severity: Warning, Title: "Jobs of process pools run on the controller's machine without a container",
		Why: "Such a job can read whatever the agent's user can, and leave processes and files behind for the next one.",
		Fix: "Take process out of agent.backends, unless every workflow that can reach it is trusted."},
	{Code: config.CodeBackendDocker, Severity: Warning, Title: "The embedded agent uses Docker's daemon, which runs as root",
		Why: "A job that leaves its container is root on this machine.", Fix: "Use podman, which needs no root, or run Docker in its rootless mode."},
	{Code: config.CodeRootfulSocket, Severity: Warning, Title: "The system's Podman is used although the user has one",
		Why: "Behind the system's socket a job that leaves its container is root on this machine.", Fix: "Remove agent.podman_socket, or set it to the user's own socket."},
	{Code: config.CodeHeartbeatSlow, Severity: Warning, Title: "Agents are heard from too seldom",
		Why: "One late heartbeat takes a host out of service.", Fix: "Lower agent.heartbeat_interval.", Remedy: reset},
	{Code: config.CodeRunnerSecret, Severity: Warning, Title: "A variable of every runner looks like a secret",
		Why: "Every job of every repository can read a runner's environment.", Fix: "Keep it as a secret at GitHub, where a repository or an environment owns it."},
	{Code: config.CodeRunnerReservedName, Severity: Warning, Title: "A variable of every runner has a name of the fleet's own",
		Why: "Names with ZOOMIES_ are how the controller speaks to a runner; a fixed value can keep every runner from starting.", Fix: "Use the setting of that purpose."},
	{Code: config.CodeUnknownVariable, Severity: Warning, Title: "A variable of the environment names no setting",
		Why: "It has no effect.", Fix: "Correct its name or unset it."},
	{Code: config.CodeUnknownDatabaseKey, Severity: Warning, Title: "The database has a setting that this version does not know",
		Why: "It has no effect.", Fix: "Nothing, if another version of Zoomies wrote it."},
})

func byFinding(kinds []Kind) map[string]Code {
	out := map[string]Code{}
	for _, k := range kinds {
		finding := k.Code
		k.Code, k.Subject, k.Audience = prefixConfig+finding, OfSetting, auth.Platform
		out[finding] = declare(k)
	}
	return out
}

// OfFinding is the problem that a finding about the settings is. The zero Code is none.
func OfFinding(finding string) Code { return findings[finding] }

// RaiseFindings says that what was found of the settings stands. Findings of one code about one setting are one problem.
func (s *Set) RaiseFindings(list []config.Finding) {
	all := map[key]Problem{}
	for _, f := range list {
		at := key{OfFinding(f.Code), f.Key}
		p, more := all[at]
		if more {
			p.Title += " " + f.Title
			if !strings.Contains(p.Fix, f.Fix) {
				p.Fix += " " + f.Fix
			}
		} else {
			p = Problem{Code: at.code, Title: f.Title, Why: f.Why, Fix: f.Fix}
		}
		all[at] = p
	}
	for at, p := range all {
		s.Raise(at.subject, p)
	}
}
