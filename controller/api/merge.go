package api

import (
	"encoding/json"
	"fmt"
	"maps"
)

// merge returns current with what patch says in its place. A patch is the object with every field optional: what is absent stays.
func merge[T any](current T, patch any) (T, error) {
	raw, err := json.Marshal(patch)
	if err != nil {
		return current, fmt.Errorf("cannot read the change: %w", err)
	}
	var said map[string]json.RawMessage
	if err := json.Unmarshal(raw, &said); err != nil {
		return current, fmt.Errorf("cannot read the change: %w", err)
	}
	now, err := json.Marshal(current)
	if err != nil {
		return current, err
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(now, &all); err != nil {
		return current, err
	}
	// whole values: a list or a map is replaced, not added to
	maps.Copy(all, said)
	raw, err = json.Marshal(all)
	if err != nil {
		return current, err
	}
	var merged T
	err = json.Unmarshal(raw, &merged)
	return merged, err
}
