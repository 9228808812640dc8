package proxmox

import (
	"encoding/json"
	"net/http"
	"strings"
)

// fail is an answer that is not 200. Its text is the reason phrase and the message.
type fail struct {
	status int
	text   string
	fields map[string]string // what is wrong with which parameter
	bare   bool              // raised before a method was called: no JSON
	plain  string            // the body of a bare one
	line   bool              // the message ends without a newline
}

func (f *fail) Error() string { return f.text }

// die is an error of a method or a worker: 500 with its text.
func die(text string) error { return &fail{status: http.StatusInternalServerError, text: text} }

// denied is a missing privilege.
func denied(what string) error {
	if what != "" {
		what = " (" + what + ")"
	}
	return &fail{status: http.StatusForbidden, text: "Permission check failed" + what}
}

// wrong is a parameter that is not acceptable.
func wrong(fields map[string]string) error {
	return &fail{status: http.StatusBadRequest, text: "Parameter verification failed.", fields: fields}
}

func wrongField(name, text string) error { return wrong(map[string]string{name: text}) }

func bare(status int, text, plain string) error {
	return &fail{status: status, text: text, bare: true, plain: plain}
}

// answer makes the answer of an error.
func (f *fail) answer() answer {
	reason, _, _ := strings.Cut(f.text, "\n")
	a := answer{status: f.status, reason: reason, close: true}
	if f.bare {
		if f.plain != "" {
			a.kind, a.body = "text/plain", []byte(f.plain)
		}
		return a
	}
	text := f.text
	if !f.line {
		text += "\n"
	}
	out := map[string]any{"data": nil, "message": text}
	if len(f.fields) > 0 {
		out["errors"] = f.fields
	}
	a.kind, a.body = jsonType, encode(out)
	return a
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // nothing that cannot be written is ever answered
		panic(err)
	}
	return b
}
