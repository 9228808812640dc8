package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// configFiles are the files that a JIT configuration unpacks to, in the runner's root.
var configFiles = []string{".runner", ".credentials", ".credentials_rsaparams"}

// config is what the runner knows of its registration.
type config struct {
	AgentID    int64
	AgentName  string
	ServerURL  string
	WorkFolder string
	token      string
}

var errNotConfigured = errors.New("Runner is not configured.") //nolint:staticcheck,revive // the real runner's wording

// unpackJIT decodes a JIT configuration to the files in it. Like the real runner it takes whitespace in the blob, but nothing else that is not base64.
func unpackJIT(blob string) (map[string][]byte, error) {
	blob = strings.Join(strings.Fields(blob), "")
	raw, err := base64.StdEncoding.DecodeString(blob)
	if err != nil {
		return nil, fmt.Errorf("cannot decode the JIT configuration: %w", err)
	}
	var encoded map[string]string
	if err := json.Unmarshal(raw, &encoded); err != nil {
		return nil, fmt.Errorf("cannot parse the JIT configuration: %w", err)
	}
	files := map[string][]byte{}
	for name, content := range encoded {
		if name != filepath.Base(name) || name == "." || name == ".." {
			return nil, fmt.Errorf("cannot unpack the JIT configuration: %q is not a file name", name)
		}
		if files[name], err = base64.StdEncoding.DecodeString(content); err != nil {
			return nil, fmt.Errorf("cannot decode %s of the JIT configuration: %w", name, err)
		}
	}
	return files, nil
}

// loadConfig unpacks a JIT configuration into dir, if there is one, and reads the files there.
func loadConfig(dir, jit string) (config, error) {
	if jit != "" {
		files, err := unpackJIT(jit)
		if err != nil {
			return config{}, err
		}
		for name, content := range files {
			if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
				return config{}, fmt.Errorf("cannot save the configuration: %w", err)
			}
		}
	}
	settings, err := os.ReadFile(filepath.Join(dir, ".runner"))
	if errors.Is(err, os.ErrNotExist) {
		return config{}, errNotConfigured
	} else if err != nil {
		return config{}, fmt.Errorf("cannot read the configuration: %w", err)
	}
	credentials, err := os.ReadFile(filepath.Join(dir, ".credentials"))
	if err != nil {
		return config{}, fmt.Errorf("cannot read the credentials: %w", err)
	}
	return parseConfig(settings, credentials)
}

func parseConfig(settings, credentials []byte) (config, error) {
	var run struct {
		AgentID    string `json:"agentId"`
		AgentName  string `json:"agentName"`
		ServerURL  string `json:"serverUrl"`
		WorkFolder string `json:"workFolder"`
	}
	var cred struct {
		Scheme string            `json:"scheme"`
		Data   map[string]string `json:"data"`
	}
	if err := json.Unmarshal(settings, &run); err != nil {
		return config{}, fmt.Errorf("cannot parse .runner: %w", err)
	}
	if err := json.Unmarshal(credentials, &cred); err != nil {
		return config{}, fmt.Errorf("cannot parse .credentials: %w", err)
	}
	id, err := strconv.ParseInt(run.AgentID, 10, 64)
	if err != nil {
		return config{}, fmt.Errorf("cannot read the runner's id: %w", err)
	}
	c := config{AgentID: id, AgentName: run.AgentName, ServerURL: run.ServerURL, WorkFolder: run.WorkFolder, token: cred.Data["token"]}
	if c.WorkFolder == "" {
		c.WorkFolder = "_work"
	}
	if c.ServerURL == "" || c.token == "" {
		return config{}, errors.New("cannot use the configuration: it names no server or no credential")
	}
	return c, nil
}

// removeConfig deletes the configuration files: the registration is used up.
func removeConfig(dir string) {
	for _, name := range configFiles {
		_ = os.Remove(filepath.Join(dir, name)) // nothing reads them any more
	}
}
