// Command fuzzapi sends generated requests to the whole API, from the API's own description, and looks for answers that are the
// controller's fault and for secrets in the wrong place. It must never know of an operation more than it needs to get past it.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// schema is the part of JSON Schema that the API's description uses.
type schema struct {
	Ref                  string            `json:"$ref"`
	Type                 types             `json:"type"`
	Format               string            `json:"format"`
	Pattern              string            `json:"pattern"`
	Enum                 []any             `json:"enum"`
	Properties           map[string]schema `json:"properties"`
	Required             []string          `json:"required"`
	Items                *schema           `json:"items"`
	AdditionalProperties json.RawMessage   `json:"additionalProperties"`
	Minimum              *float64          `json:"minimum"`
	Maximum              *float64          `json:"maximum"`
	MinLength            int               `json:"minLength"`
	MaxLength            *int              `json:"maxLength"`
	MaxItems             *int              `json:"maxItems"`
	Examples             []any             `json:"examples"`
	WriteOnly            bool              `json:"writeOnly"`
}

// types is one type, or a list of them.
type types []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *types) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*t = types{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(t))
}

// param is one parameter of an operation.
type param struct {
	Name     string `json:"name"`
	In       string `json:"in"`
	Required bool   `json:"required"`
	Schema   schema `json:"schema"`
}

// operation is one route.
type operation struct {
	ID, Method, Path string
	Params           []param
	Body             *schema
	Streams          bool // its answer has no end
}

// description is the API's own.
type description struct {
	operations []operation
	schemas    map[string]schema
}

// describe reads an OpenAPI document.
func describe(raw []byte) (description, error) {
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID string  `json:"operationId"`
			Parameters  []param `json:"parameters"`
			RequestBody *struct {
				Content map[string]struct {
					Schema schema `json:"schema"`
				} `json:"content"`
			} `json:"requestBody"`
			Responses map[string]struct {
				Content map[string]json.RawMessage `json:"content"`
			} `json:"responses"`
		} `json:"paths"`
		Components struct {
			Schemas map[string]schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return description{}, fmt.Errorf("cannot read the API's description: %w", err)
	}
	d := description{schemas: doc.Components.Schemas}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			op := doc.Paths[path][method]
			o := operation{ID: op.OperationID, Method: strings.ToUpper(method), Path: path, Params: op.Parameters}
			if op.RequestBody != nil {
				for _, c := range op.RequestBody.Content {
					o.Body = &c.Schema
				}
			}
			for _, resp := range op.Responses {
				_, streams := resp.Content["text/event-stream"]
				o.Streams = o.Streams || streams
			}
			d.operations = append(d.operations, o)
		}
	}
	return d, nil
}

// resolve follows a reference.
func (d *description) resolve(s schema) schema {
	for s.Ref != "" {
		s = d.schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	return s
}
