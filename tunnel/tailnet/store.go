package tailnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"tailscale.com/ipn"
)

// Store keeps the node's state, which holds its private keys: seal it. It is asked rarely.
type Store interface {
	// Get is what was put last; nil when there is nothing.
	Get() ([]byte, error)
	Put(state []byte) error
}

// Memory is a Store that forgets with the process.
type Memory struct {
	mu    sync.Mutex
	state []byte
}

// Get implements Store.
func (m *Memory) Get() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, nil
}

// Put implements Store.
func (m *Memory) Put(state []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = state
	return nil
}

// keeper is a Store as the library wants one: many small values, here in one.
type keeper struct {
	store Store
	mu    sync.Mutex
	all   map[ipn.StateKey][]byte
	ended bool // a node that was replaced writes no more
}

func newKeeper(store Store) (*keeper, error) {
	k := &keeper{store: store, all: make(map[ipn.StateKey][]byte)}
	b, err := store.Get()
	if err != nil {
		return nil, fmt.Errorf("cannot read the tailnet node's state: %w", err)
	}
	if len(b) == 0 {
		return k, nil
	}
	if err := json.Unmarshal(b, &k.all); err != nil {
		return nil, errors.New("cannot read the tailnet node's state: it is not in the form that Zoomies writes")
	}
	return k, nil
}

// ReadState implements ipn.StateStore.
func (k *keeper) ReadState(id ipn.StateKey) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, ok := k.all[id]
	if !ok {
		return nil, ipn.ErrStateNotExist
	}
	return b, nil
}

// WriteState implements ipn.StateStore.
func (k *keeper) WriteState(id ipn.StateKey, b []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return nil
	}
	if b == nil {
		delete(k.all, id)
	} else {
		k.all[id] = append([]byte(nil), b...)
	}
	whole, err := json.Marshal(k.all)
	if err != nil {
		return fmt.Errorf("cannot write the tailnet node's state: %w", err)
	}
	return k.store.Put(whole)
}

func (k *keeper) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
}
