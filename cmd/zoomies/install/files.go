package install

import (
	"fmt"
	"strings"
)

// settings is the settings file of these answers.
func settings(a Answers, uid int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Written once by `zoomies init`; it is yours to change. Every setting: docs/reference/settings.md\ndata_dir: %s\nlisten: %q\n", a.DataDir, a.Listen)
	switch a.Backend {
	case "none":
		b.WriteString("agent:\n  embedded: false\n")
	case "podman":
		fmt.Fprintf(&b, "agent:\n  backends: [podman]\n  podman_socket: %s\n", podmanSocket(uid))
	default:
		fmt.Fprintf(&b, "agent:\n  backends: [%s]\n", a.Backend)
	}
	return b.String()
}

func runtimeDir(uid int) string   { return fmt.Sprintf("/run/user/%d", uid) }
func podmanSocket(uid int) string { return runtimeDir(uid) + "/podman/podman.sock" }

// unit is the service's unit. Podman runs in its user's own service manager, so that the controller itself needs no right to start
// containers and can be shut in; jobs of the process backend are children of the controller and would be shut in with it.
func unit(a Answers, uid int) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	// Not network-online.target: it can hold a start up for minutes, and a controller copes with a network that comes later.
	wants := ""
	switch a.Backend {
	case "podman":
		wants = fmt.Sprintf("user@%d.service", uid)
	case "docker":
		wants = "docker.service"
	}
	line("# Written by `zoomies init`, which writes it anew when it is run again. Put changes into a drop-in: systemctl edit zoomies")
	line("[Unit]\nDescription=Zoomies, a fleet of GitHub Actions runners\nWants=%s\nAfter=network.target %s\nStartLimitIntervalSec=0\n", wants, wants)
	line("[Service]\nType=exec\nUser=%s\nGroup=%s", UserName, UserName)
	line("ExecStart=%s controller --config %s", BinFile, SettingsFile)
	line("Restart=always\nRestartSec=2s\nTimeoutStopSec=30s\nLimitNOFILE=65536\nUMask=0077")
	if a.Backend == "podman" {
		line("Environment=XDG_RUNTIME_DIR=%s", runtimeDir(uid))
	}
	if a.Backend == "docker" {
		line("SupplementaryGroups=docker")
	}
	if a.Backend == "process" {
		line("# Runners go on while the controller is started anew.\nKillMode=process")
	}
	capability := ""
	if a.port() < 1024 {
		capability = "CAP_NET_BIND_SERVICE"
		line("AmbientCapabilities=%s", capability)
	}
	if a.Backend != "process" {
		line("\n# It writes its data folder and nothing else, sees no home, and can gain no rights.")
		line("CapabilityBoundingSet=%s\nNoNewPrivileges=yes\nProtectSystem=strict\nReadWritePaths=%s", capability, a.DataDir)
		line("InaccessiblePaths=-/home -/root") // ProtectHome would hide /run/user as well, where Podman's socket is
		line("PrivateTmp=yes\nPrivateDevices=yes\nProtectClock=yes\nProtectHostname=yes\nProtectControlGroups=yes\nProtectKernelLogs=yes")
		line("ProtectKernelModules=yes\nProtectKernelTunables=yes\nProtectProc=invisible\nLockPersonality=yes\nMemoryDenyWriteExecute=yes")
		line("RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK\nRestrictNamespaces=yes\nRestrictRealtime=yes\nRestrictSUIDSGID=yes")
		line("SystemCallArchitectures=native\nSystemCallFilter=@system-service\nSystemCallErrorNumber=EPERM\nKeyringMode=private")
	}
	line("\n[Install]\nWantedBy=multi-user.target")
	return b.String()
}
