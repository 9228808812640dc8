// Command gen derives sim/proxmox's table of API methods from Proxmox VE's own descriptions of its
// API: of the methods that the simulation answers, the parameters (types, formats, limits) and who
// may call them. Nothing else of the descriptions is kept.
//
//	go run ./sim/proxmox/gen 8.4=api-8.4.json 9.1=api-9.1.json > sim/proxmox/table.json
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// methods are what the simulation answers. A method that a version does not have is left out of that version.
var methods = strings.Fields(`
GET:/version GET:/access/permissions
GET:/cluster/resources GET:/cluster/nextid GET:/cluster/status GET:/cluster/options GET:/cluster/tasks
GET:/cluster/ha/resources GET:/cluster/ha/status/current
GET:/nodes GET:/nodes/{node}/status GET:/nodes/{node}/version GET:/nodes/{node}/network
GET:/nodes/{node}/qemu POST:/nodes/{node}/qemu GET:/nodes/{node}/qemu/{vmid} DELETE:/nodes/{node}/qemu/{vmid}
GET:/nodes/{node}/qemu/{vmid}/config PUT:/nodes/{node}/qemu/{vmid}/config POST:/nodes/{node}/qemu/{vmid}/config
GET:/nodes/{node}/qemu/{vmid}/pending GET:/nodes/{node}/qemu/{vmid}/feature
GET:/nodes/{node}/qemu/{vmid}/status/current
POST:/nodes/{node}/qemu/{vmid}/status/start POST:/nodes/{node}/qemu/{vmid}/status/stop
POST:/nodes/{node}/qemu/{vmid}/status/shutdown POST:/nodes/{node}/qemu/{vmid}/status/reboot
POST:/nodes/{node}/qemu/{vmid}/status/reset POST:/nodes/{node}/qemu/{vmid}/status/suspend
POST:/nodes/{node}/qemu/{vmid}/status/resume
POST:/nodes/{node}/qemu/{vmid}/clone POST:/nodes/{node}/qemu/{vmid}/template
POST:/nodes/{node}/qemu/{vmid}/migrate PUT:/nodes/{node}/qemu/{vmid}/resize
GET:/nodes/{node}/qemu/{vmid}/agent/network-get-interfaces POST:/nodes/{node}/qemu/{vmid}/agent/ping
GET:/nodes/{node}/tasks GET:/nodes/{node}/tasks/{upid} DELETE:/nodes/{node}/tasks/{upid}
GET:/nodes/{node}/tasks/{upid}/log GET:/nodes/{node}/tasks/{upid}/status
GET:/nodes/{node}/storage GET:/nodes/{node}/storage/{storage} GET:/nodes/{node}/storage/{storage}/status
GET:/nodes/{node}/storage/{storage}/content GET:/nodes/{node}/storage/{storage}/content/{volume}
DELETE:/nodes/{node}/storage/{storage}/content/{volume} POST:/nodes/{node}/storage/{storage}/upload
GET:/storage GET:/storage/{storage}
GET:/pools POST:/pools PUT:/pools DELETE:/pools GET:/pools/{poolid} PUT:/pools/{poolid} DELETE:/pools/{poolid}
`)

// kept are the words of a parameter's description that bind.
var kept = []string{
	"type", "format", "minimum", "maximum", "minLength", "maxLength", "pattern", "enum", "optional", "requires", "default_key", "alias", "keyAlias",
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

type described struct {
	Method     string `json:"method"`
	Path       string `json:"path"`
	Protected  any    `json:"protected"`
	ProxyTo    string `json:"proxyto"`
	Parameters struct {
		Properties map[string]map[string]any `json:"properties"`
	} `json:"parameters"`
	Permissions json.RawMessage `json:"permissions"`
}

type method struct {
	Protected   bool            `json:"protected,omitempty"` // answered by pvedaemon, not by pveproxy
	Proxied     bool            `json:"proxied,omitempty"`   // answered by the node in the path
	Permissions json.RawMessage `json:"permissions"`
	Parameters  map[string]int  `json:"parameters"` // name to its place among the table's properties
}

func run(args []string, out io.Writer) error {
	places := map[string]int{}
	var properties []string
	versions := map[string]map[string]method{}
	for _, arg := range args {
		version, path, ok := strings.Cut(arg, "=")
		if !ok {
			return fmt.Errorf("cannot read %q: want version=file", arg)
		}
		text, err := os.ReadFile(path) //nolint:gosec // the developer names the file
		if err != nil {
			return fmt.Errorf("cannot read the API's description: %w", err)
		}
		var all []described
		if err := json.Unmarshal(text, &all); err != nil {
			return fmt.Errorf("cannot read %s: %w", path, err)
		}
		versions[version] = map[string]method{}
		for _, d := range all {
			if !slices.Contains(methods, d.Method+":"+d.Path) {
				continue
			}
			m := method{Protected: d.Protected != nil, Proxied: d.ProxyTo == "node", Permissions: permissions(d.Permissions), Parameters: map[string]int{}}
			for name, p := range d.Parameters.Properties {
				b, err := json.Marshal(strip(p))
				if err != nil {
					return fmt.Errorf("cannot write %s of %s: %w", name, d.Path, err)
				}
				place, ok := places[string(b)]
				if !ok {
					place = len(properties)
					places[string(b)] = place
					properties = append(properties, string(b))
				}
				m.Parameters[name] = place
			}
			versions[version][d.Method+" "+d.Path] = m
		}
	}
	return write(out, sorted(properties, versions), versions)
}

// sorted puts the properties in an order that does not depend on that of maps.
func sorted(properties []string, versions map[string]map[string]method) []string {
	order := slices.Clone(properties)
	slices.Sort(order)
	for _, ms := range versions {
		for _, m := range ms {
			for name, place := range m.Parameters {
				m.Parameters[name] = slices.Index(order, properties[place])
			}
		}
	}
	return order
}

func permissions(raw json.RawMessage) json.RawMessage {
	var p map[string]any
	if json.Unmarshal(raw, &p) != nil {
		return json.RawMessage("null")
	}
	delete(p, "description")
	b, err := json.Marshal(p)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}

// strip keeps what binds, and makes numbers of numbers that are written as text.
func strip(p map[string]any) map[string]any {
	out := map[string]any{}
	for _, k := range kept {
		v, ok := p[k]
		if !ok {
			continue
		}
		switch {
		case k == "format":
			if sub, ok := v.(map[string]any); ok {
				f := map[string]any{}
				for name, s := range sub {
					if s, ok := s.(map[string]any); ok {
						f[name] = strip(s)
					}
				}
				v = f
			}
		case k == "optional" || k == "default_key":
			v = fmt.Sprint(v) == "1"
		case strings.HasPrefix(k, "m") || strings.HasPrefix(k, "M"):
			if f, err := strconv.ParseFloat(fmt.Sprint(v), 64); err == nil {
				v = f
			}
		}
		out[k] = v
	}
	return out
}

// write writes one line for each property and method, so that a change can be read.
func write(out io.Writer, properties []string, versions map[string]map[string]method) error {
	var b bytes.Buffer
	b.WriteString("{\"properties\":[\n" + strings.Join(properties, ",\n") + "\n],\n\"versions\":{")
	for i, v := range slices.Sorted(maps.Keys(versions)) {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n" + strconv.Quote(v) + ":{")
		for j, k := range slices.Sorted(maps.Keys(versions[v])) {
			text, err := json.Marshal(versions[v][k])
			if err != nil {
				return fmt.Errorf("cannot write %s: %w", k, err)
			}
			if j > 0 {
				b.WriteString(",")
			}
			b.WriteString("\n" + strconv.Quote(k) + ":" + string(text))
		}
		b.WriteString("}")
	}
	b.WriteString("}}\n")
	if _, err := out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("cannot write the table: %w", err)
	}
	return nil
}
