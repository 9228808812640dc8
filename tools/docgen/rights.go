package main

import (
	"fmt"
	"strings"

	"github.com/zoomies-fleet/zoomies/controller/auth"
)

const rightsIntro = `# Rights

Every route that the controller serves, with who may call it. The controller refuses by the same table, and tests walk it with
every role. What roles, grants and scopes are is explained under [Who may do what](../explanation/access.md).

Each role includes those before it: %s. A role in the table is asked for over the object that the column names: a grant over the
fleet covers everything, one over an installation covers the installation with its pools, jobs and runners, and one over a pool
covers the pool with its runners and their jobs. *Listed* means that the answer leaves out what the caller may not see; *body*
that the object is the one that the request's body names. Someone who may not even see an object gets the answer that there is none.

An API token needs, besides, the scope of the area: %s to read, %s for the rest, or ` + "`*`" + `. The machine's owner, over the local
socket, may do everything.

Routes marked *once* take an ` + "`Idempotency-Key`" + `: sent again with the same key, they are carried out once.
`

func rightsPage() string {
	var roles []string
	for _, r := range auth.Roles {
		roles = append(roles, code(string(r)))
	}
	var b strings.Builder
	b.WriteString(notice)
	fmt.Fprintf(&b, rightsIntro, strings.Join(roles, ", "), code("<area>:read"), code("<area>:write"))
	section := ""
	for _, g := range auth.Guards {
		if s := sectionOf(g); s != section {
			section = s
			fmt.Fprintf(&b, "\n## %s\n\n| route | operation | who | over | area | what it does |\n| --- | --- | --- | --- | --- | --- |\n", section)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", code(route(g)), code(g.ID), who(g), over(g), area(g), cell(g.Summary)+once(g))
	}
	return b.String()
}

// sectionOf is what a route is about: the first part of its path below the API's root.
func sectionOf(g auth.Guard) string {
	rest, inAPI := strings.CutPrefix(g.Path, "/api/v1/")
	if !inAPI {
		return "Outside the API"
	}
	first, _, _ := strings.Cut(rest, "/")
	if strings.HasPrefix(first, "openapi.") {
		first = "openapi"
	}
	return strings.ToUpper(first[:1]) + strings.ReplaceAll(first[1:], "-", " ")
}

func route(g auth.Guard) string {
	if g.Method == "" {
		return "any " + g.Path
	}
	return g.Method + " " + g.Path
}

func who(g auth.Guard) string {
	switch g.Access {
	case auth.Open:
		return "anybody"
	case auth.Proven:
		return "whoever brings its own proof"
	case auth.AnyUser:
		return "whoever has signed in"
	case auth.LocalOnly:
		return "the machine's owner"
	case auth.ByRole:
	}
	return string(g.Role)
}

func over(g auth.Guard) string {
	switch {
	case g.Access != auth.ByRole:
		return ""
	case g.Object == auth.TheFleet:
		return "fleet"
	}
	return string(g.Object)
}

func area(g auth.Guard) string {
	if g.Access != auth.ByRole && g.Access != auth.AnyUser {
		return ""
	}
	return code(string(g.Area))
}

func once(g auth.Guard) string {
	if g.Creates {
		return " *Once.*"
	}
	return ""
}
