package agent

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/zoomies-fleet/zoomies/agent/protocol"
)

const (
	maxSpent  = 64 // how many spent join tokens are remembered; the oldest go first
	maxFormer = 8  // how many former IDs are
)

// State is the state file, agent.json: all that an agent keeps across a restart.
type State struct {
	HostID     string `json:"host_id,omitempty"`
	AgentToken string `json:"agent_token,omitempty"` // secret
	Controller string `json:"controller,omitempty"`  // address
	// CAPin is the pin of the authority that the certificate at that address comes from; empty when it was trusted otherwise.
	CAPin string `json:"ca_pin,omitempty"`
	// Joining is the join that was begun and not answered yet. It is kept before the controller is
	// asked, so that the same can be asked again when the answer is lost.
	Joining *Joining `json:"joining,omitempty"`
	// Former are the IDs under which the controller knew this host before it was deleted there; what they left on the engine is
	// this agent's to look after.
	Former []string `json:"former_hosts,omitempty"`
	// Spent holds the SHA-256 of every join token that was traded in, never the token.
	Spent []string `json:"spent_join_tokens,omitempty"`
}

// Joining is what a join is repeated with: the agent token chosen for it.
type Joining struct {
	JoinToken  string `json:"join_token_sha256"` // of the join token that it was begun with
	AgentToken string `json:"agent_token"`       // secret
}

// String hides the token.
func (s State) String() string { return "state of host " + s.HostID }

// GoString hides the token.
func (s State) GoString() string { return s.String() }

// LoadState reads a state file. A file that does not exist is an empty state.
func LoadState(path string) (State, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, fmt.Errorf("cannot read the agent's state: %w", err)
	}
	var s State
	if err := json.Unmarshal(data, &s); err != nil {
		// The decoder's own words could quote the token.
		return State{}, fmt.Errorf("cannot read the agent's state: %s is damaged; move it away and join again with a new join token", path)
	}
	return s, nil
}

// save writes the state so that a crash leaves the old file or the new one, whole.
func (s *State) save(path string) error {
	if err := s.write(path); err != nil {
		return fmt.Errorf("cannot keep the agent's state: %w", err)
	}
	return nil
}

func (s *State) write(path string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return writeWhole(path, data)
}

// writeWhole replaces a file so that a crash leaves the old one or the new one.
func writeWhole(path string, data []byte) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, filepath.Base(path)+".new-*") // 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // gone already when all went well
	_, err = f.Write(append(data, '\n'))
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// begin chooses the agent token that a join with this join token will bring, unless that join was
// begun before: then it is the same one.
func (s *State) begin(joinToken string) (agentToken string) {
	h := tokenHash(joinToken)
	if s.Joining == nil || s.Joining.JoinToken != h || s.Joining.AgentToken == "" {
		s.Joining = &Joining{JoinToken: h, AgentToken: "zooagent_" + rand.Text() + rand.Text()} // 260 bits
	}
	return s.Joining.AgentToken
}

// joined takes over what the join with this join token has brought.
func (s *State) joined(joinToken, hostID, agentToken, controller string) {
	if s.HostID != "" {
		s.Former = append(s.Former, s.HostID)
	}
	s.Former = slices.DeleteFunc(s.Former, func(id string) bool { return id == hostID })
	s.Former = s.Former[max(0, len(s.Former)-maxFormer):]
	s.HostID, s.AgentToken, s.Controller, s.Joining = hostID, agentToken, controller, nil
	s.spend(joinToken)
}

// spend remembers that a join token was traded in.
func (s *State) spend(token string) {
	h := tokenHash(token)
	if slices.Contains(s.Spent, h) {
		return
	}
	s.Spent = append(s.Spent, h)
	if n := len(s.Spent) - maxSpent; n > 0 {
		s.Spent = slices.Delete(s.Spent, 0, n)
	}
}

// fresh says whether a join token may be offered.
func (s *State) fresh(token string) bool {
	return token != "" && !slices.Contains(s.Spent, tokenHash(token))
}

func (s *State) credential() protocol.Credential {
	return protocol.Credential{HostID: s.HostID, Token: s.AgentToken}
}

func tokenHash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
