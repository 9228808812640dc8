package client

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
)

// Problem is the controller's answer that something cannot be done, as RFC 9457 has it.
type Problem struct { //nolint:errname // the name that the RFC gives it
	Type      string   `json:"type"`
	Title     string   `json:"title"`
	Status    int      `json:"status"` // of HTTP
	Detail    string   `json:"detail"` // what happened, to what
	Fix       string   `json:"fix"`    // what to do next
	RequestID string   `json:"request_id"`
	Errors    []Detail `json:"errors"`
}

// Detail is one part of a request that is wrong.
type Detail struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// Error implements error: what happened, which parts are wrong, and what to do.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Detail)
	for _, d := range p.Errors {
		if d.Message == "" || strings.Contains(p.Detail, d.Message) || strings.EqualFold(strings.TrimSuffix(p.Detail, "."), d.Message) {
			continue
		}
		b.WriteString("\n  " + strings.TrimPrefix(d.Location, "body.") + ": " + d.Message)
	}
	if p.Fix != "" {
		b.WriteString("\n  fix: " + p.Fix)
	}
	if p.Status >= http.StatusInternalServerError && p.RequestID != "" {
		b.WriteString(" (request " + p.RequestID + ")")
	}
	return b.String()
}

// UnavailableError says that the controller does not answer.
type UnavailableError struct {
	Base string
	Err  error
}

// Error implements error.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("the controller at %s does not answer: %s", e.Base, e.Err)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// maxProblem bounds how much of an error answer is read, in bytes.
const maxProblem = 1 << 20

// problemOf reads an error answer; one that is no problem of the controller's (a proxy's, say) is told of by its status.
func problemOf(resp *http.Response) *Problem {
	p := &Problem{}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	if err != nil || kind != "application/problem+json" || json.Unmarshal(raw, p) != nil || p.Detail == "" {
		p = &Problem{Title: http.StatusText(resp.StatusCode), Detail: fmt.Sprintf("The server answered %s, and not as a Zoomies controller does.", resp.Status),
			Fix: "Look whether the address is a controller's, and what is between."}
	}
	p.Status = resp.StatusCode
	return p
}
