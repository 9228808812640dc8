package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// generator makes requests out of a description: most of them right in all parts but one, some right, some wild.
type generator struct {
	d     description
	r     *rand.Rand
	known map[string][]string // what answers have shown, by kind or field; and what fits, by "operation.field"
	plant func(op, field string) string
	care  bool // this request is to get through
}

// call is one request.
type call struct {
	op         operation
	path       string
	headers    map[string]string
	body       []byte
	planted    []string // canaries that it carries
	knowsState string   // of a run of the manifest flow, which stands in its path
}

// odds of things.
const (
	oddsWild     = 25 // one value in so many is none of its type
	oddsOptional = 3  // one optional field in so many is left out
	oddsUnknown  = 30 // one object in so many has a field that nobody knows
	oddsBroken   = 60 // one body in so many is no JSON
)

func (g *generator) one(in int) bool { return g.r.IntN(in) == 0 }

// slips says that the generator does something wrong now.
func (g *generator) slips(in int) bool { return g.one(in) && !g.care }

// next makes a request.
func (g *generator) next() call {
	return g.call(g.d.operations[g.r.IntN(len(g.d.operations))])
}

// call makes a request for an operation.
func (g *generator) call(op operation) call {
	g.care = g.one(2)
	c := call{op: op, headers: map[string]string{}}
	path, query := op.Path, url.Values{}
	for _, p := range op.Params {
		switch p.In {
		case "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(g.pathValue(op, p)))
		case "query":
			if p.Required || len(g.known[op.ID+"."+p.Name]) > 0 || g.one(4) {
				query.Set(p.Name, g.text(g.value(p.Name, p.Schema, &c, 0)))
			}
		case "header":
			if p.Required || g.one(4) {
				c.headers[p.Name] = headerSafe(g.text(g.value(p.Name, p.Schema, &c, 0)))
			}
		}
	}
	if g.slips(50) {
		query.Set("surprise", g.word())
	}
	c.path = path
	if len(query) > 0 {
		c.path += "?" + query.Encode()
	}
	if op.Body != nil {
		c.body = g.body(*op.Body, &c)
	}
	return c
}

func (g *generator) body(s schema, c *call) []byte {
	if g.slips(oddsBroken) {
		return []byte([]string{"", "{", "null", "[]", "{}{}", `"text"`, "\x00\xff", `{"a":1e999}`, strings.Repeat("[", 20_000)}[g.r.IntN(9)])
	}
	raw, err := json.Marshal(g.value("body", s, c, 0))
	if err != nil {
		return []byte("{")
	}
	return raw
}

// pathValue is mostly something that is there.
func (g *generator) pathValue(op operation, p param) string {
	if g.slips(8) {
		return g.word()
	}
	_, after, _ := strings.Cut(op.Path, "/api/v1/")
	kind := strings.TrimPrefix(after, "github/")
	kind, _, _ = strings.Cut(kind, "/")
	for _, key := range []string{op.ID + "." + p.Name, kind, p.Name} {
		if key == kind && (p.Name == "code" || p.Name == "key") {
			continue
		}
		if list := g.known[key]; len(list) > 0 {
			return list[g.r.IntN(len(list))]
		}
	}
	return g.word()
}

// value is a value for a schema.
func (g *generator) value(name string, s schema, c *call, depth int) any {
	s = g.d.resolve(s)
	if depth > 6 || g.slips(oddsWild) {
		return g.wild()
	}
	if s.WriteOnly {
		canary := g.plant(c.op.ID, name)
		c.planted = append(c.planted, canary)
		return canary
	}
	if len(s.Enum) > 0 {
		return s.Enum[g.r.IntN(len(s.Enum))]
	}
	kind := "string"
	for _, t := range s.Type {
		if t != "null" {
			kind = t
		}
	}
	switch kind {
	case "object":
		return g.object(s, c, depth)
	case "array":
		most := 4
		if s.MaxItems != nil {
			most = min(most, *s.MaxItems+1)
		}
		list := make([]any, g.r.IntN(most+1))
		for i := range list {
			if s.Items != nil {
				list[i] = g.value(name, *s.Items, c, depth+1)
			}
		}
		return list
	case "boolean":
		return g.one(2)
	case "integer", "number":
		if list := g.known[c.op.ID+"."+name]; len(list) > 0 && !g.slips(6) {
			if n, err := strconv.ParseInt(list[g.r.IntN(len(list))], 10, 64); err == nil {
				return n
			}
		}
		if kind == "number" {
			return g.number(s)
		}
		return math.Floor(g.number(s))
	}
	return g.string(c.op.ID, name, s)
}

func (g *generator) object(s schema, c *call, depth int) any {
	o := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		required := slices.Contains(s.Required, name)
		if required && g.slips(40) || !required && (g.care || !g.one(oddsOptional)) && !g.one(4) {
			continue
		}
		o[name] = g.value(name, s.Properties[name], c, depth+1)
	}
	var extra schema
	if len(s.Properties) == 0 && json.Unmarshal(s.AdditionalProperties, &extra) == nil {
		for range g.r.IntN(3) {
			o[g.word()] = g.value("value", extra, c, depth+1)
		}
	}
	if g.slips(oddsUnknown) {
		o[g.word()] = g.wild()
	}
	return o
}

func (g *generator) number(s schema) float64 {
	low, high := -10.0, 1e6
	if s.Minimum != nil {
		low = *s.Minimum
	}
	if s.Maximum != nil {
		high = *s.Maximum
	}
	if g.care {
		return low + float64(g.r.IntN(int(min(high-low, 20))+1))
	}
	switch g.r.IntN(8) {
	case 0:
		return low
	case 1:
		return high
	case 2:
		return low - 1
	case 3:
		return high + 1
	case 4:
		return math.MaxInt64
	}
	return low + g.r.Float64()*math.Min(high-low, 20)
}

// string prefers what is known for this operation's field, and then what is known for fields of the name.
func (g *generator) string(op, name string, s schema) any {
	if list := g.known[op+"."+name]; len(list) > 0 && !g.slips(6) {
		return list[g.r.IntN(len(list))]
	}
	if list := g.known[name]; len(list) > 0 && !g.slips(6) {
		return list[g.r.IntN(len(list))]
	}
	switch {
	case len(s.Examples) > 0 && !g.slips(4):
		return s.Examples[g.r.IntN(len(s.Examples))]
	case s.Format == "date-time":
		return time.Unix(g.r.Int64N(4e9), 0).UTC().Format(time.RFC3339)
	case s.MaxLength != nil && g.slips(10):
		return strings.Repeat("x", min(*s.MaxLength+g.r.IntN(2), 5000))
	case s.Pattern != "" && !g.slips(6), g.care:
		return fmt.Sprintf("w%d", g.r.IntN(1000)) // fits the names; other patterns are met by examples and known values
	}
	return g.word()
}

// words are texts that have broken something somewhere.
var words = []string{
	"", " ", "0", "-1", "null", "true", "a", "name", "😀", "ÅÄÖ", "a/b", "../../etc/passwd", "%00", "\x00", "\u202e", "'; DROP TABLE pools; --", `"`, `\`,
	"<script>alert(1)</script>", "{{.}}", "${HOME}", "acme/app", "http://127.0.0.1:1", "file:///etc/passwd", "5m", "1e309", "NaN", "9223372036854775808",
	"\xff\xfe", "a\nb", "a\r\nSet-Cookie: x=y", "zoo_x", "usr_none", "pool_none", "*", "pools:read", strings.Repeat("long", 2000),
}

func (g *generator) word() string {
	if g.one(3) {
		return fmt.Sprintf("w%d", g.r.IntN(200))
	}
	return words[g.r.IntN(len(words))]
}

// wild is a value of no particular type.
func (g *generator) wild() any {
	switch g.r.IntN(7) {
	case 0:
		return nil
	case 1:
		return g.r.IntN(100) - 50
	case 2:
		return g.word()
	case 3:
		return []any{g.word(), 1, nil}
	case 4:
		return map[string]any{g.word(): g.word()}
	case 5:
		return 1e300
	}
	return g.one(2)
}

// text is a value as a path, a query or a header carries it.
func (g *generator) text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	raw, _ := json.Marshal(v) // plain values
	return string(raw)
}

// headerSafe leaves out what an HTTP client refuses to send.
func headerSafe(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s[:min(len(s), 1000)])
}

// learn remembers the IDs and names of an answer.
func (g *generator) learn(op operation, body []byte) {
	var v any
	if json.Unmarshal(body, &v) != nil {
		return
	}
	_, after, _ := strings.Cut(op.Path, "/api/v1/")
	kind := strings.TrimPrefix(after, "github/")
	kind, _, _ = strings.Cut(kind, "/")
	g.learnValue(kind, "", v)
}

const remembered = 50

func (g *generator) learnValue(kind, field string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			g.learnValue(kind, k, v[k])
		}
	case []any:
		for _, x := range v {
			g.learnValue(kind, field, x)
		}
	case string:
		key := field
		if field == "id" {
			key = kind
		}
		if key != "id" && key != kind && !strings.HasSuffix(key, "_id") && key != "code" && key != "key" && key != "next_cursor" {
			return
		}
		if key == "next_cursor" {
			key = "cursor"
		}
		if list := g.known[key]; v != "" && !slices.Contains(list, v) {
			g.known[key] = append(list[max(0, len(list)-remembered+1):], v)
		}
	}
}
