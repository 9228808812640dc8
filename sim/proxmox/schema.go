package proxmox

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed table.json
var tableText []byte

// property is what a parameter must be.
type property struct {
	Type       string   `json:"type"`
	Format     format   `json:"format"`
	Minimum    *float64 `json:"minimum"`
	Maximum    *float64 `json:"maximum"`
	MinLength  *float64 `json:"minLength"`
	MaxLength  *float64 `json:"maxLength"`
	Pattern    string   `json:"pattern"`
	Enum       []string `json:"enum"`
	Optional   bool     `json:"optional"`
	Requires   string   `json:"requires"`
	DefaultKey bool     `json:"default_key"` //nolint:tagliatelle // Proxmox's word
	Alias      string   `json:"alias"`
	KeyAlias   string   `json:"keyAlias"`
}

// format is the name of a format, or the properties of a list of key=value.
type format struct {
	name string
	keys map[string]*property
}

// UnmarshalJSON reads either kind.
func (f *format) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &f.name) //nolint:wrapcheck // inside of a table that is built in
	}
	return json.Unmarshal(b, &f.keys) //nolint:wrapcheck // inside of a table that is built in
}

// method is an API method of one version.
type method struct {
	name      string // "GET /version"
	segments  []string
	Protected bool           `json:"protected"`
	Proxied   bool           `json:"proxied"`
	Perm      permission     `json:"permissions"`
	Places    map[string]int `json:"parameters"`
	params    map[string]*property
}

type permission struct {
	Check []any  `json:"check"`
	User  string `json:"user"`
}

// api are the methods of a version, by the verb.
type api map[string][]*method

var loadTable = sync.OnceValue(func() map[string]api {
	var t struct {
		Properties []*property                   `json:"properties"`
		Versions   map[string]map[string]*method `json:"versions"`
	}
	if err := json.Unmarshal(tableText, &t); err != nil {
		panic(fmt.Errorf("cannot read the table of Proxmox's API: %w", err)) // it is built in
	}
	out := map[string]api{}
	for version, methods := range t.Versions {
		a := api{}
		for name, m := range methods {
			verb, path, _ := strings.Cut(name, " ")
			m.name, m.segments = name, strings.Split(strings.TrimPrefix(path, "/"), "/")
			m.params = map[string]*property{}
			for p, place := range m.Places {
				m.params[p] = t.Properties[place]
			}
			a[verb] = append(a[verb], m)
		}
		for _, ms := range a { // fixed segments before variable ones
			slices.SortFunc(ms, func(x, y *method) int {
				return strings.Compare(strings.ReplaceAll(x.name, "{", "~"), strings.ReplaceAll(y.name, "{", "~"))
			})
		}
		out[version] = a
	}
	return out
})

// find finds the method of a path, and its parameters in the path.
func (a api) find(verb, path string) (*method, map[string]string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
next:
	for _, m := range a[verb] {
		vars := map[string]string{}
		for i, seg := range m.segments {
			name, variable := strings.CutPrefix(seg, "{")
			name = strings.TrimSuffix(name, "}")
			switch {
			case i >= len(parts):
				continue next
			case variable && name == "volume": // the rest of the path
				vars[name] = strings.Join(parts[i:], "/")
				return m, vars
			case variable:
				vars[name] = parts[i]
			case seg != parts[i]:
				continue next
			}
		}
		if len(parts) == len(m.segments) {
			return m, vars
		}
	}
	return nil, nil
}

// limits are how many there are of numbered parameters.
var limits = map[string]int{
	"net": 32, "ide": 4, "sata": 6, "scsi": 31, "virtio": 16, "serial": 4, "usb": 14, "hostpci": 16, "unused": 256, "ipconfig": 32, "numa": 8,
	"parallel": 3, "virtiofs": 10,
}

var numbered = regexp.MustCompile(`^([a-z]+)(0|[1-9]\d*)$`)

// property is what a parameter of that name must be; nil when there is none.
func (m *method) property(name string) *property {
	if p := m.params[name]; p != nil && !strings.HasSuffix(name, "[n]") {
		return p
	}
	if g := numbered.FindStringSubmatch(name); g != nil {
		if n, err := strconv.Atoi(g[2]); err == nil && n < limits[g[1]] {
			return m.params[g[1]+"[n]"]
		}
	}
	return nil
}

const notInSchema = "property is not defined in schema and the schema does not allow additional properties"

// verify checks the parameters of a call.
func (m *method) verify(params map[string]value) error {
	errs := map[string]string{}
	for name, v := range params {
		p := m.property(name)
		if p == nil {
			errs[name] = notInSchema
			continue
		}
		if text := p.check(name, v); text != "" {
			errs[name] = text
		}
		if _, ok := params[p.Requires]; p.Requires != "" && !ok {
			errs[p.Requires] = fmt.Sprintf("missing property - '%s' requires this property", name)
		}
	}
	for name, p := range m.params {
		if _, ok := params[name]; !ok && !p.Optional && !strings.HasSuffix(name, "[n]") {
			errs[name] = "property is missing and it is not optional"
		}
	}
	if len(errs) > 0 {
		return wrong(errs)
	}
	return nil
}

// value is a parameter as it was sent.
type value struct {
	text string
	list bool // sent more than once
}

// check returns what is wrong with a value, empty when nothing is.
func (p *property) check(name string, v value) string {
	if v.list {
		return fmt.Sprintf("type check ('%s') failed - got ARRAY", p.Type)
	}
	if !isType(p.Type, v.text) {
		return fmt.Sprintf("type check ('%s') failed - got '%s'", p.Type, v.text)
	}
	if text := p.Format.check(name, v.text); text != "" {
		return "invalid format - " + text
	}
	if p.Pattern != "" && !pattern(p.Pattern).MatchString(v.text) {
		return "value does not match the regex pattern"
	}
	if n := float64(len([]rune(v.text))); p.MaxLength != nil && n > *p.MaxLength {
		return fmt.Sprintf("value may only be %.0f characters long", *p.MaxLength)
	} else if p.MinLength != nil && n < *p.MinLength {
		return fmt.Sprintf("value must be at least %.0f characters long", *p.MinLength)
	}
	if f, err := strconv.ParseFloat(v.text, 64); err == nil && !math.IsNaN(f) {
		switch {
		case p.Maximum != nil && f > *p.Maximum:
			return "value must have a maximum value of " + strconv.FormatFloat(*p.Maximum, 'f', -1, 64)
		case p.Minimum != nil && f < *p.Minimum:
			return "value must have a minimum value of " + strconv.FormatFloat(*p.Minimum, 'f', -1, 64)
		}
	}
	if p.Enum != nil && !slices.Contains(p.Enum, v.text) {
		return fmt.Sprintf("value '%s' does not have a value in the enumeration '%s'", v.text, strings.Join(p.Enum, ", "))
	}
	return ""
}

var (
	integer = regexp.MustCompile(`^[+-]?\d+$`)
	number  = regexp.MustCompile(`^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$`)
)

func isType(kind, text string) bool {
	switch kind {
	case "integer":
		return integer.MatchString(text)
	case "number":
		return number.MatchString(text)
	case "boolean":
		return text == "0" || text == "1"
	}
	return true
}

var (
	patternsMu sync.Mutex
	patterns   = map[string]*regexp.Regexp{}
)

// pattern compiles an expression of the description, anchored. Perl's "(?^:" is Go's "(?:" here.
func pattern(expr string) *regexp.Regexp {
	patternsMu.Lock()
	defer patternsMu.Unlock()
	re := patterns[expr]
	if re == nil {
		re = regexp.MustCompile("^(?:" + strings.ReplaceAll(expr, "(?^:", "(?:") + ")$")
		patterns[expr] = re
	}
	return re
}
