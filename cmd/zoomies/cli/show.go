package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/zoomies-fleet/zoomies/client"
)

// How answers are shown.
const (
	outputTable = "table"
	outputJSON  = "json"
	outputYAML  = "yaml"
)

func (a *app) checkOutput() error {
	if all := []string{outputTable, outputJSON, outputYAML}; !slices.Contains(all, a.flags.output) {
		return usagef("--output is table, json or yaml, not %.32q%s", a.flags.output, didYouMean(a.flags.output, all))
	}
	return nil
}

// column is one column of a table: its head, and the field of the answer that it shows; points lead into objects.
type column struct{ head, key string }

// showList shows the objects of a list.
func (a *app) showList(w io.Writer, items []json.RawMessage, cols []column) error {
	if a.flags.quiet {
		return showIDs(w, items)
	}
	switch a.flags.output {
	case outputJSON, outputYAML:
		raw, err := json.Marshal(items)
		if err != nil {
			return err
		}
		return a.showRaw(w, raw)
	}
	return a.table(w, items, cols)
}

// table shows objects in columns.
func (a *app) table(w io.Writer, items []json.RawMessage, cols []column) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	heads := make([]string, len(cols))
	for i, c := range cols {
		heads[i] = c.head
	}
	fmt.Fprintln(t, strings.Join(heads, "\t"))
	for _, raw := range items {
		o, err := decode(raw)
		if err != nil {
			return err
		}
		cells := make([]string, len(cols))
		for i, c := range cols {
			cells[i] = a.cell(at(o, c.key), c.key)
		}
		fmt.Fprintln(t, strings.TrimRight(strings.Join(cells, "\t"), "\t "))
	}
	return t.Flush()
}

// showOne shows one object.
func (a *app) showOne(w io.Writer, raw json.RawMessage) error {
	if a.flags.quiet {
		return showIDs(w, []json.RawMessage{raw})
	}
	if a.flags.output != outputTable {
		return a.showRaw(w, raw)
	}
	var n yaml.Node // JSON is YAML, and this keeps the fields in their order
	if err := yaml.Unmarshal(raw, &n); err != nil || len(n.Content) == 0 {
		return fmt.Errorf("cannot read the answer: %w", errors.Join(err, errNoObject))
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	a.fields(t, n.Content[0], "")
	return t.Flush()
}

var errNoObject = errors.New("it is no object")

// fields writes an object's fields, one on a line.
func (a *app) fields(w io.Writer, n *yaml.Node, indent string) {
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		key, v := n.Content[i].Value, n.Content[i+1]
		label := indent + strings.ReplaceAll(key, "_", " ")
		switch {
		case v.Kind == yaml.MappingNode && len(v.Content) > 0:
			fmt.Fprintf(w, "%s:\n", label)
			a.fields(w, v, indent+"  ")
		case v.Kind == yaml.SequenceNode && len(v.Content) > 0 && v.Content[0].Kind == yaml.MappingNode:
			fmt.Fprintf(w, "%s:\n", label)
			for _, item := range v.Content {
				fmt.Fprintf(w, "%s-\n", indent+"  ")
				a.fields(w, item, indent+"    ")
			}
		default:
			var value any
			if err := v.Decode(&value); err != nil {
				value = v.Value
			}
			if v.Tag == "!!timestamp" {
				value = v.Value
			}
			fmt.Fprintf(w, "%s:\t%s\n", label, a.cell(value, key))
		}
	}
}

// showRaw shows an answer as it is.
func (a *app) showRaw(w io.Writer, raw json.RawMessage) error {
	if a.flags.output != outputYAML {
		var b bytes.Buffer
		if err := json.Indent(&b, raw, "", "  "); err != nil {
			return fmt.Errorf("cannot read the answer: %w", err)
		}
		_, err := fmt.Fprintln(w, strings.TrimRight(b.String(), "\n"))
		return err
	}
	var n yaml.Node
	if err := yaml.Unmarshal(raw, &n); err != nil {
		return fmt.Errorf("cannot read the answer: %w", err)
	}
	block(&n)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	return errors.Join(enc.Encode(&n), enc.Close())
}

// block lays out a document as YAML is usually written; it was read from JSON.
func block(n *yaml.Node) {
	n.Style &^= yaml.FlowStyle | yaml.DoubleQuotedStyle
	if n.Tag == "!!str" || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
		n.Tag = "!!str" // a text that looks like a number stays one
	}
	for _, c := range n.Content {
		block(c)
	}
}

func showIDs(w io.Writer, items []json.RawMessage) error {
	for _, raw := range items {
		o, err := decode(raw)
		if err != nil {
			return err
		}
		for _, key := range []string{"id", "key", "code", "seq", "name"} {
			if v, ok := o[key]; ok {
				fmt.Fprintln(w, v)
				break
			}
		}
	}
	return nil
}

func decode(raw json.RawMessage) (object, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var o object
	if err := d.Decode(&o); err != nil {
		return nil, fmt.Errorf("cannot read the answer: %w", err)
	}
	return o, nil
}

// at follows a key with points into an object.
func at(o object, key string) any {
	var v any = map[string]any(o)
	for part := range strings.SplitSeq(key, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[part]
	}
	return v
}

// cell is a value as a table shows it.
func (a *app) cell(v any, key string) string {
	switch v := v.(type) {
	case nil:
		return "-"
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case string:
		if name := a.names[v]; name != "" {
			return name
		}
		if t, err := time.Parse(time.RFC3339, v); err == nil && (strings.HasSuffix(key, "_at") || key == "at" || key == "since") {
			return a.ago(t)
		}
		if v == "" {
			return "-"
		}
		return oneLine(v)
	case []any:
		parts := make([]string, len(v))
		for i, p := range v {
			parts[i] = a.cell(p, key)
		}
		if len(parts) == 0 {
			return "-"
		}
		return strings.Join(parts, ",")
	case map[string]any:
		if len(v) == 0 {
			return "-"
		}
		if role, ok := v["role"].(string); ok {
			return a.grant(role, v)
		}
		raw, err := json.Marshal(v)
		if err != nil {
			return "?"
		}
		return string(raw)
	}
	return fmt.Sprint(v)
}

// grant is a role as --grant takes it.
func (a *app) grant(role string, v object) string {
	if kind := v.text("scope_kind"); kind != "" && kind != "fleet" {
		return role + "@" + kind + "/" + a.cell(v.text("scope_id"), "scope_id")
	}
	return role
}

// oneLine keeps a value in its cell, and control characters from the terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

// ago is how long ago something was, roughly; or when it will be.
func (a *app) ago(t time.Time) string {
	d := a.now().Sub(t)
	if d < 0 {
		return "in " + rough(-d)
	}
	return rough(d) + " ago"
}

func rough(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// problemIn returns the controller's answer in an error.
func problemIn(err error) (*client.Problem, bool) {
	var p *client.Problem
	ok := errors.As(err, &p)
	return p, ok
}
