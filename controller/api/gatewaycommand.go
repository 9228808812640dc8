package api

import (
	"regexp"
	"strings"
)

var storageName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]{0,62}[A-Za-z0-9]$`)

// gatewayCommand is what connects a provider. The capability is in its environment, where no process list shows it; the rest is public
// and says what will be made.
func (s *Server) gatewayCommand(spec ProviderSetupSpec, secret, relay, admit string) string {
	words := []string{"zoomies", "gateway", "install", "--name", spec.Name, "--controller", s.agentURL}
	if s.caPin != "" {
		words = append(words, "--ca-pin", s.caPin)
	}
	words = append(words, "--pool", spec.Pool)
	for _, name := range spec.Storages {
		words = append(words, "--storage", name)
	}
	words = append(words, "--bridge", spec.Bridge, "--relay", relay, "--admit", admit)
	for i, w := range words {
		words[i] = shellWord(w)
	}
	return setupVariable + "=" + secret + " " + strings.Join(words, " ")
}

// setupVariable is where `zoomies gateway install` looks for the capability.
const setupVariable = "ZOOMIES_SETUP_TOKEN"

var plainWord = regexp.MustCompile(`^[A-Za-z0-9@%_+=:,./-]+$`)

// shellWord is a word as a shell takes it.
func shellWord(w string) string {
	if plainWord.MatchString(w) {
		return w
	}
	return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
}
