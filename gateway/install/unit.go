package install

import (
	"fmt"
	"strings"
)

// unit is the gateway's unit. It may open connections and write its state directory, as a user that exists while it runs, and nothing
// else. What its environment says is public.
func unit(a Answers, target string) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	set := func(name, value string) {
		line(`Environment="%s=%s"`, name, strings.ReplaceAll(value, "%", "%%"))
	}
	line("# Written by `zoomies gateway install`, which writes it anew when it is run again. Put changes into a drop-in.")
	line("[Unit]\nDescription=Zoomies gateway: lets one controller reach this node's API\nAfter=network.target\nStartLimitIntervalSec=0\n")
	line("[Service]\nType=exec")
	set(RelayVariable, a.Relay)
	set(AdmitVariable, a.Admit)
	line("ExecStart=%s gateway run --state-dir %s --target %s --quiet", ProgramFile, StateDir, target)
	line("Restart=always\nRestartSec=5s\nTimeoutStopSec=30s\nUMask=0077\n")
	line("DynamicUser=yes\nStateDirectory=zoomies-gateway\nStateDirectoryMode=0700")
	line("CapabilityBoundingSet=\nNoNewPrivileges=yes\nProtectSystem=strict\nProtectHome=yes\nPrivateTmp=yes\nPrivateDevices=yes\nPrivateUsers=yes")
	line("InaccessiblePaths=-/etc/pve -%s -/var/lib/vz -/var/lib/zoomies", KeepDir)
	line("ProtectClock=yes\nProtectHostname=yes\nProtectControlGroups=yes\nProtectKernelLogs=yes\nProtectKernelModules=yes\nProtectKernelTunables=yes")
	line("ProtectProc=invisible\nProcSubset=pid\nLockPersonality=yes\nMemoryDenyWriteExecute=yes\nMemoryMax=256M\nTasksMax=64\nLimitNOFILE=1024")
	line("RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX\nRestrictNamespaces=yes\nRestrictRealtime=yes\nRestrictSUIDSGID=yes\nRemoveIPC=yes")
	line("SystemCallArchitectures=native\nSystemCallFilter=@system-service\nSystemCallErrorNumber=EPERM\nKeyringMode=private\n")
	line("[Install]\nWantedBy=multi-user.target")
	return b.String()
}

// Variables of the unit that `zoomies gateway run` goes by. Neither is a secret.
const (
	RelayVariable = "ZOOMIES_GATEWAY_RELAY"
	AdmitVariable = "ZOOMIES_GATEWAY_ADMIT"
)
