package cli

// operation is what the command line knows of one operation of the API.
type operation struct {
	method, path, summary, need string
	query, body                 []field
	hasBody                     bool
}

// field is a parameter, or a part of a body, as a flag can give it.
type field struct {
	name     string
	kind     string // string, integer, number, boolean, strings, map, secret; json for what is none of them
	doc      string
	preset   string // what the API takes when it is left out
	enum     []string
	required bool
	query    bool // a parameter
}
