// Package problems is the declared list of what can be wrong with a fleet, and the set of what stands now. It must never find out
// itself what is wrong, and never hold a secret: whoever may see a pool sees its problems.
package problems

import (
	"strings"
	"unicode"

	"github.com/zoomies-fleet/zoomies/controller/auth"
)

// Severity says how bad a problem is.
type Severity string

// The severities, the worst first.
const (
	Error   Severity = "error"   // something that should work does not
	Warning Severity = "warning" // it works, and somebody should do something before it does not
	Info    Severity = "info"    // good to know
)

// Severities lists them, the worst first.
var Severities = []Severity{Error, Warning, Info}

// Subject is the kind of object that a problem is about.
type Subject string

// What problems are about.
const (
	OfFleet        Subject = "" // the fleet as a whole
	OfInstallation Subject = "installation"
	OfPool         Subject = "pool"
	OfHost         Subject = "host"
	OfSetting      Subject = "setting"
)

// Kind is one declared problem: what is true of it whenever it stands.
type Kind struct {
	Code     string // stable, dotted
	Severity Severity
	Audience auth.Role // who can do something about it
	Subject  Subject
	Title    string // a short sentence without an end
	Why      string // what it means and how it comes about
	Fix      string // what to do
	Remedy   *Remedy
}

// Remedy is a call that mends a problem, or does the first step. "{subject}" stands for the ID of what the problem is about.
type Remedy struct {
	Summary   string         // what it does, a sentence without an end
	Operation string         // of the API, by its ID in the table of guards
	Body      map[string]any // of that call; nil for none. A value in angle brackets is for the caller to fill in
	Command   string         // the same on the command line
}

// For is the remedy for one subject.
func (r Remedy) For(subject string) Remedy {
	r.Command = strings.ReplaceAll(r.Command, placeholder, subject)
	return r
}

const placeholder = "{subject}"

// Code names a declared problem. Only this package makes codes, so that nothing else can be raised. The zero Code is none.
type Code struct{ kind *Kind }

// declared is every code, in the order of the declarations.
var declared []Code

func declare(k Kind) Code {
	c := Code{&k}
	declared = append(declared, c)
	return c
}

// All lists every declared code.
func All() []Code { return append([]Code(nil), declared...) }

// Find returns the code of that text.
func Find(text string) (Code, bool) {
	for _, c := range declared {
		if c.kind.Code == text {
			return c, true
		}
	}
	return Code{}, false
}

// Kind is what was declared.
func (c Code) Kind() Kind {
	if c.kind == nil {
		return Kind{}
	}
	return *c.kind
}

// String implements fmt.Stringer.
func (c Code) String() string { return c.Kind().Code }

// MarshalText implements encoding.TextMarshaler.
func (c Code) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Page is where the documentation explains problems, from the root of the tree.
const Page = "docs/reference/problems.md"

// Link is where the documentation explains this one.
func (c Code) Link() string { return Page + "#" + anchor(c.String()) }

// anchor is the name by which a heading is reached: letters, digits, hyphens and underscores stay.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_' {
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}
