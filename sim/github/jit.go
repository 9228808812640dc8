package github

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
)

// RunnerSettings is the `.runner` file of a JIT configuration.
type RunnerSettings struct {
	AgentID       string `json:"agentId"`
	AgentName     string `json:"agentName"`
	PoolID        string `json:"poolId"`
	PoolName      string `json:"poolName"`
	ServerURL     string `json:"serverUrl"`
	GitHubURL     string `json:"gitHubUrl"`
	WorkFolder    string `json:"workFolder"`
	Ephemeral     string `json:"ephemeral"`
	DisableUpdate string `json:"disableUpdate"`
}

// RunnerCredentials is the `.credentials` file.
type RunnerCredentials struct {
	Scheme string            `json:"scheme"`
	Data   map[string]string `json:"data"`
}

// jitConfig is the blob that a runner takes its registration from: base64 of a JSON object from file names
// to base64 of the files, as `run.sh --jitconfig` unpacks it.
func (s *Server) jitConfig(r *runner, workFolder string) (string, error) {
	files := map[string]any{
		".runner": RunnerSettings{
			AgentID: strconv.FormatInt(r.id, 10), AgentName: r.name, PoolID: "1", PoolName: defaultGroupName,
			ServerURL: s.public + runnerRoot, GitHubURL: s.public + "/" + r.scope(), WorkFolder: workFolder,
			Ephemeral: "True", DisableUpdate: "True",
		},
		".credentials":           RunnerCredentials{Scheme: "OAuthAccessToken", Data: map[string]string{"token": r.credential}},
		".credentials_rsaparams": map[string]string{"exponent": "AQAB", "modulus": s.token("", 32)},
	}
	out := map[string]string{}
	for name, content := range files {
		b, err := json.Marshal(content)
		if err != nil {
			return "", fmt.Errorf("cannot encode %s: %w", name, err)
		}
		out[name] = base64.StdEncoding.EncodeToString(b)
	}
	b, err := json.Marshal(out)
	if err != nil {
		return "", fmt.Errorf("cannot encode the JIT configuration: %w", err)
	}
	return base64.StdEncoding.EncodeToString(b), nil
}
