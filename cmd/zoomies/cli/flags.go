package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/zoomies-fleet/zoomies/client"
)

// secretFields are parts of a body that come from a file or a prompt, never from the command line.
var secretFields = []string{"password", "current", "new", "private_key", "webhook_secret", "token", "code"}

// secretLabels are their flags and prompts, where their own names say too little.
var secretLabels = map[string]string{"token": "setup_token", "current": "current_password", "new": "new_password"}

func labelOf(f field) string {
	if l := secretLabels[f.name]; l != "" {
		return l
	}
	return f.name
}

// read makes a request's parameters and body of the flags and arguments that were given.
type read func(ctx context.Context, c *client.Client, cmd *cobra.Command, args []string) (url.Values, map[string]any, error)

// fieldFlags gives a command a flag for each field of its operation.
func (a *app) fieldFlags(c *cobra.Command, v verb, op operation) read {
	var query, body []func(ctx context.Context, cl *client.Client, cmd *cobra.Command) (string, any, error)
	for _, f := range op.query {
		if f.name == "cursor" || f.name == "limit" || slices.Contains(v.hide, f.name) {
			continue
		}
		f.query = true
		query = append(query, a.fieldFlag(c, f))
	}
	for _, f := range op.body {
		if slices.Contains(v.takes, f.name) || slices.Contains(v.hide, f.name) {
			continue
		}
		if _, ok := v.set[f.name]; ok {
			continue
		}
		if f.doc == "" && v.docs != "" {
			f = described(f, operations[v.docs])
		}
		body = append(body, a.fieldFlag(c, f))
	}
	return func(ctx context.Context, cl *client.Client, cmd *cobra.Command, args []string) (url.Values, map[string]any, error) {
		q, b := url.Values{}, map[string]any{}
		for _, get := range query {
			name, value, err := get(ctx, cl, cmd)
			if err != nil {
				return nil, nil, err
			}
			switch value := value.(type) {
			case nil:
			case []string:
				q.Set(name, strings.Join(value, ","))
			default:
				q.Set(name, fmt.Sprint(value))
			}
		}
		maps.Copy(b, v.set)
		for i, name := range v.takes {
			value, err := argument(op, name, args[i])
			if err != nil {
				return nil, nil, err
			}
			b[name] = value
		}
		for _, get := range body {
			name, value, err := get(ctx, cl, cmd)
			if err != nil {
				return nil, nil, err
			}
			if value != nil {
				b[name] = value
			}
		}
		return q, b, nil
	}
}

// described is a field with the words that another operation has for it.
func described(f field, other operation) field {
	for _, o := range other.body {
		if o.name == f.name {
			f.doc = o.doc
		}
	}
	return f
}

// argument reads a field that came as an argument.
func argument(op operation, name, text string) (any, error) {
	for _, f := range op.body {
		if f.name != name {
			continue
		}
		switch f.kind {
		case "integer":
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, usagef("%s is a whole number, and %.32q is none", name, text)
			}
			return n, nil
		case "boolean":
			b, err := strconv.ParseBool(text)
			if err != nil {
				return nil, usagef("%s is true or false", name)
			}
			return b, nil
		}
	}
	return text, nil
}

// flagOf is a field's flag: installation_id is --installation, which takes a name, too.
func flagOf(f field) (flag string, of *noun) {
	if base, ok := strings.CutSuffix(f.name, "_id"); ok {
		if n := nounOf(base); n != nil && f.kind == "string" {
			return strings.ReplaceAll(base, "_", "-"), n
		}
	}
	if isSecret(f) {
		return strings.ReplaceAll(labelOf(f), "_", "-") + "-file", nil
	}
	return strings.ReplaceAll(f.name, "_", "-"), nil
}

func isSecret(f field) bool {
	return f.kind == "secret" || !f.query && slices.Contains(secretFields, f.name)
}

// fieldFlag adds a field's flag, and returns how its value is read: nil for a flag that was not given.
func (a *app) fieldFlag(c *cobra.Command, f field) func(context.Context, *client.Client, *cobra.Command) (string, any, error) {
	name, of := flagOf(f)
	fl := c.Flags()
	var get func(ctx context.Context, cl *client.Client, cmd *cobra.Command) (any, error)
	help := f.help()
	switch {
	case isSecret(f):
		p := fl.String(name, "", help+" (path of a file, - for the standard input)")
		get = func(_ context.Context, _ *client.Client, cmd *cobra.Command) (any, error) { return readSecret(cmd, *p) }
	case of != nil:
		p := fl.String(name, "", help+" (name or ID)")
		get = func(ctx context.Context, cl *client.Client, _ *cobra.Command) (any, error) {
			if *p == "" {
				return "", nil
			}
			return a.find(ctx, cl, of, *p)
		}
		if err := c.RegisterFlagCompletionFunc(name, a.completeNames(of)); err != nil {
			panic(err) // the flag exists
		}
	case f.name == "grants" || f.kind == "grants":
		p := fl.StringArray("grant", nil, "role, or role@pool/NAME or role@installation/NAME for a part of the fleet; repeat it for more")
		name = "grant"
		get = func(ctx context.Context, cl *client.Client, _ *cobra.Command) (any, error) {
			return a.grants(ctx, cl, *p)
		}
	case f.kind == "integer":
		p := fl.Int64(name, 0, help)
		get = given(func() any { return *p })
	case f.kind == "number":
		p := fl.Float64(name, 0, help)
		get = given(func() any { return *p })
	case f.kind == "boolean":
		p := fl.Bool(name, false, help)
		get = given(func() any { return *p })
	case f.kind == "strings":
		p := fl.StringSlice(name, nil, help+" (separated by commas, or repeat the flag)")
		get = given(func() any { return nonNil(*p) })
	case f.kind == "map":
		p := fl.StringToString(name, nil, help+" (key=value; repeat the flag for more)")
		get = given(func() any {
			if *p == nil {
				return map[string]string{}
			}
			return *p
		})
	case f.kind == "json":
		p := fl.String(name, "", help+" (JSON)")
		get = func(context.Context, *client.Client, *cobra.Command) (any, error) {
			if !json.Valid([]byte(*p)) {
				return nil, usagef("--%s is no JSON", name)
			}
			return json.RawMessage(*p), nil
		}
	default:
		p := fl.String(name, "", help)
		get = given(func() any { return *p })
		if f.enum != nil {
			complete(c, name, slices.DeleteFunc(slices.Clone(f.enum), func(s string) bool { return s == "" })...)
		}
	}
	if f.required && !isSecret(f) {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag exists
		}
	}
	return func(ctx context.Context, cl *client.Client, cmd *cobra.Command) (string, any, error) {
		if !cmd.Flags().Changed(name) {
			if isSecret(f) && f.required {
				value, err := promptSecret(cmd, labelOf(f))
				return f.name, value, err
			}
			return f.name, nil, nil
		}
		value, err := get(ctx, cl, cmd)
		return f.name, value, err
	}
}

// help is a flag's line in the help.
func (f field) help() string {
	text := f.doc
	if text == "" {
		text = strings.ReplaceAll(f.name, "_", " ")
	}
	text = strings.ReplaceAll(text, "`", "")
	values := slices.DeleteFunc(slices.Clone(f.enum), func(s string) bool { return s == "" })
	if len(values) > 0 {
		text += ": " + strings.Join(values, ", ")
	}
	if f.preset != "" {
		text += " (default: " + f.preset + ")"
	}
	if f.required {
		text += " (required)"
	}
	return text
}

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// maxSecret bounds a file that holds a secret, in bytes.
const maxSecret = 64 << 10

// readSecret reads a secret from a file or the standard input. One line end behind it is no part of it.
func readSecret(cmd *cobra.Command, path string) (string, error) {
	var raw []byte
	var err error
	if path == "-" {
		raw, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxSecret))
	} else {
		raw, err = os.ReadFile(path)
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the secret: %w", err)
	}
	if len(raw) >= maxSecret {
		return "", usagef("%s is too large to be a secret", path)
	}
	return string(bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\n")), []byte("\r"))), nil
}

// given is the value of a flag that is taken as it was given.
func given(value func() any) func(context.Context, *client.Client, *cobra.Command) (any, error) {
	return func(context.Context, *client.Client, *cobra.Command) (any, error) { return value(), nil }
}
