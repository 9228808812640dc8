package contract

import (
	"encoding/json"
	"fmt"
	"strings"
)

// extract cuts the kept paths, and all that they refer to, out of the description, and makes its
// objects strict: a field that GitHub does not describe is most likely one that we misspelt.
func extract(raw []byte) ([]byte, error) {
	var doc struct {
		OpenAPI    string                                `json:"openapi"`
		Info       json.RawMessage                       `json:"info"`
		Paths      map[string]json.RawMessage            `json:"paths"`
		Components map[string]map[string]json.RawMessage `json:"components"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("cannot parse GitHub's description: %w", err)
	}
	doc.Components["schemas"][appOfManifest] = doc.Components["schemas"]["integration"]
	paths := map[string]any{}
	components := map[string]map[string]any{}
	var visit func(v any) error
	follow := func(ref string) error {
		kind, name, ok := strings.Cut(strings.TrimPrefix(ref, "#/components/"), "/")
		if !ok {
			return fmt.Errorf("cannot follow %q", ref)
		}
		if _, done := components[kind][name]; done {
			return nil
		}
		var v any
		if err := json.Unmarshal(doc.Components[kind][name], &v); err != nil {
			return fmt.Errorf("cannot parse %s: %w", ref, err)
		}
		if components[kind] == nil {
			components[kind] = map[string]any{}
		}
		components[kind][name] = v
		if (kind == "schemas" || kind == "responses") && !lenient[name] {
			strict(v)
		}
		return visit(v)
	}
	visit = func(v any) error {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				return follow(ref)
			}
			erratum(v)
			if answers, ok := v["responses"]; ok {
				strict(answers)
			}
			for k, x := range v {
				if k == "example" || k == "examples" {
					delete(v, k)
					continue
				}
				if err := visit(x); err != nil {
					return err
				}
			}
		case []any:
			for _, x := range v {
				if err := visit(x); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for p, item := range doc.Paths {
		if !wanted(p) {
			continue
		}
		var v any
		if err := json.Unmarshal(item, &v); err != nil {
			return nil, fmt.Errorf("cannot parse %s: %w", p, err)
		}
		paths[p] = v
		if err := visit(v); err != nil {
			return nil, err
		}
	}
	return json.Marshal(map[string]any{"openapi": doc.OpenAPI, "info": doc.Info, "paths": paths, "components": components,
		"servers": []any{map[string]any{"url": "https://api.github.com"}}})
}

// erratum mends a fault of the description: the account of a listed installation is a user or an
// enterprise, as the single installation rightly says, and cannot be both.
//
// An App with its secrets is an App and more: what may not have more is only the App alone.
func erratum(v map[string]any) {
	both, ok := v["allOf"].([]any)
	if !ok || len(both) != 2 {
		return
	}
	if app, ok := both[0].(map[string]any); ok && app["$ref"] == "#/components/schemas/integration" {
		app["$ref"] = "#/components/schemas/" + appOfManifest
		return
	}
	user, _ := both[0].(map[string]any)
	enterprise, _ := both[1].(map[string]any)
	if user["title"] == "Simple User" && enterprise["title"] == "Enterprise" {
		delete(v, "allOf")
		v["anyOf"] = both
	}
}

func wanted(p string) bool {
	for _, k := range kept {
		if p == k || strings.HasPrefix(p, k+"/") {
			return true
		}
	}
	return false
}

// strict forbids undescribed fields of a schema's objects, but for those that are only a part of a whole (allOf).
func strict(v any) {
	switch v := v.(type) {
	case map[string]any:
		_, described := v["properties"].(map[string]any)
		_, said := v["additionalProperties"]
		_, all := v["allOf"]
		_, anyOf := v["anyOf"]
		if described && !said && !all && !anyOf {
			v["additionalProperties"] = false
		}
		for k, x := range v {
			if k != "allOf" {
				strict(x)
			}
		}
	case []any:
		for _, x := range v {
			strict(x)
		}
	}
}
