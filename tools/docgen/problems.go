package main

import (
	"fmt"
	"strings"

	"github.com/zoomies-fleet/zoomies/controller/auth"
	"github.com/zoomies-fleet/zoomies/controller/problems"
)

const problemsIntro = `# Problems

What can be wrong with a fleet, and what to do about it. The controller looks after each of its passes; what stands now is in
the API's list of problems and in the metric ` + "`zoomies_problems`" + `, and changes are told as events. A problem that you hide stays
hidden from you alone, and only for as long as it stands.

A severity of *error* means that something that should work does not; *warning*, that somebody should do something before it does
not. The role says who can do something about it. The codes that begin with ` + "`config.`" + ` are about the controller's own settings,
which are read when it starts; those that are errors keep it from starting, and stand in its output only.

| code | severity | about | role |
| --- | --- | --- | --- |
`

func problemsPage() string {
	var b strings.Builder
	b.WriteString(notice)
	b.WriteString(problemsIntro)
	for _, c := range problems.All() {
		k := c.Kind()
		_, anchor, _ := strings.Cut(c.Link(), "#")
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s | %s |\n", k.Code, anchor, k.Severity, about(k.Subject), k.Audience)
	}
	for _, c := range problems.All() {
		k := c.Kind()
		fmt.Fprintf(&b, "\n## `%s`\n\n**%s.** %s\n\nWhat to do: %s\n", k.Code, k.Title, k.Why, k.Fix)
		if r := k.Remedy; r != nil {
			g, _ := auth.Find(r.Operation)
			fmt.Fprintf(&b, "\nRemedy: %s. Operation `%s`: `%s %s`.\n", r.Summary, r.Operation, g.Method, g.Path)
		}
	}
	return b.String()
}

func about(s problems.Subject) string {
	if s == problems.OfFleet {
		return "the fleet"
	}
	return "one " + string(s)
}
