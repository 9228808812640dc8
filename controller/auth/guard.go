package auth

import "net/http"

// Access says what a route asks of whoever calls it.
type Access string

// What a route may ask.
const (
	Open      Access = "open"      // nothing: it says nothing that a stranger may not know
	Proven    Access = "proven"    // a proof of its own: a signature, a setup token, a host's token
	AnyUser   Access = "signed in" // that it is known who calls
	ByRole    Access = "role"      // a role over what the request is about
	LocalOnly Access = "local"     // the local socket
)

// Object says what a request is about, and so over what the caller needs the role.
type Object string

// What requests are about.
const (
	TheFleet       Object = ""             // the fleet as a whole
	AnInstallation Object = "installation" // the one in the path
	APool          Object = "pool"
	ARunner        Object = "runner" // of its pool
	AJob           Object = "job"    // of its installation and of the pool that serves it
	Listed         Object = "listed" // whatever the answer lists: what the caller may not see is left out
	InBody         Object = "body"   // what the body names: the handler asks
)

// Guard is one row of the table of routes: who may call it. The routes, the reference page and the tests come from it.
type Guard struct {
	ID      string // the operation, as OpenAPI and the audit log name it
	Method  string // empty for any
	Path    string // chi's pattern
	Access  Access
	Role    Role   // with ByRole
	Area    Area   // with ByRole and AnyUser
	Object  Object // with ByRole
	Creates bool   // makes an object: takes an idempotency key
	Summary string // a sentence without an end
}

// Writes says whether the route changes something, and so leaves an audit row.
func (g Guard) Writes() bool {
	return g.Method != "" && g.Method != http.MethodGet && g.Method != http.MethodHead
}

// Find returns the guard of an operation.
func Find(id string) (Guard, bool) {
	for _, g := range Guards {
		if g.ID == id {
			return g, true
		}
	}
	return Guard{}, false
}

// Need says in words what a caller needs.
func (g Guard) Need() string {
	switch g.Access {
	case Open:
		return "Anybody may call it"
	case Proven:
		return "The request proves itself"
	case AnyUser:
		return "Whoever has signed in may call it"
	case LocalOnly:
		return "Only the machine's owner may call it, over the local socket"
	default:
	}
	switch g.Object {
	case TheFleet:
		return "Needs the role " + string(g.Role) + " over the fleet"
	case Listed:
		return "Needs the role " + string(g.Role) + " over something; the answer leaves out what the caller may not see"
	case InBody:
		return "Needs the role " + string(g.Role) + " over what the body names"
	default:
		return "Needs the role " + string(g.Role) + " over the " + string(g.Object)
	}
}
