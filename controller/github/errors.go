package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// effect says what a call does at GitHub, and so what an answer, or its absence, may mean.
type effect int

const (
	reads    effect = iota // asking again is harmless
	deletes                // harmless too: gone is gone
	mints                  // not harmless: a lost answer may have left a registration
	acts                   // not harmless: a lost answer may have begun or ended somebody's work
	converts               // not harmless: the code is spent, and a lost answer is a lost key
)

// operation describes one call for its error and its books.
type operation struct {
	what   string // after "cannot "
	effect effect
	quota  string
	cached bool   // answers may be revalidated by ETag
	secret string // stands in the call's address, and so in the text of what went wrong
}

// unsafe says that the call must not be made again before looking.
func (o operation) unsafe() bool {
	return o.effect == mints || o.effect == acts || o.effect == converts
}

// answer is a refusal as GitHub worded it.
type answer struct {
	status  int
	header  http.Header
	message string
	docs    string
	token   bool // it was the installation token that was refused; the call itself was never sent
}

const maxRefusalBody = 64 << 10

// readAnswer drains and closes the body of a refused call.
func readAnswer(resp *http.Response, secret string) *answer {
	a := &answer{status: resp.StatusCode, header: resp.Header}
	if resp.Body == nil {
		return a
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusalBody)) // a torn message is still a message
	var said struct {
		Message string          `json:"message"`
		Docs    string          `json:"documentation_url"`
		Errors  json.RawMessage `json:"errors"`
	}
	if json.Unmarshal(body, &said) == nil {
		a.message, a.docs = said.Message, said.Docs
		if len(said.Errors) > 0 && string(said.Errors) != "null" {
			a.message += " " + string(said.Errors)
		}
	}
	a.message = scrub(a.message, secret)
	return a
}

// CallError is every failure of a call. errors.Is and errors.As find the contract's classes in it, and nothing else:
// the cause itself is kept only as scrubbed text, so that no token can travel in it.
type CallError struct {
	Status  int    // HTTP status, 0 when there was no answer
	Reason  string // GitHub's own words for its refusal, scrubbed; empty when it gave none
	text    string
	classes []error
}

func (e *CallError) Error() string { return e.text }

// Unwrap returns the classes: the package's Err… values, a *LimitError, or the context's error.
func (e *CallError) Unwrap() []error { return e.classes }

// explain turns the failure of op into a CallError.
func explain(ctx context.Context, op operation, st *attempt, cause error, now time.Time) *CallError {
	e := &CallError{}
	var detail string
	switch a := st.refused(); {
	case a != nil:
		e.Status, e.Reason = a.status, a.message
		e.classes = classify(op, *a, now)
		detail = fmt.Sprintf("GitHub answered %d", a.status)
		if a.token {
			detail = fmt.Sprintf("GitHub answered %d to the request for an installation token", a.status)
		}
		if a.message != "" {
			detail += ": " + a.message
		}
	default:
		detail = scrub(cause.Error(), op.secret)
		if op.unsafe() && st.maybeSent() {
			e.classes = append(e.classes, ErrUnknown)
		}
		if err := ctx.Err(); err != nil {
			e.classes = append(e.classes, err)
		}
	}
	e.text = "cannot " + op.what + ": "
	if len(e.classes) > 0 {
		e.text += e.classes[0].Error() + ": "
	}
	e.text += detail + advice(op, e)
	return e
}

// classify maps an answer to the contract's classes; none means a plain failure that may be tried again.
func classify(op operation, a answer, now time.Time) []error {
	if l := limitFrom(a, op.quota, now); l != nil {
		return []error{l}
	}
	switch {
	case op.effect == acts && !a.token && a.status == http.StatusForbidden && !lacksPermission.MatchString(a.message):
		return []error{ErrRefused} // what is asked of a run that is in no state for it is forbidden, too
	case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
		return []error{ErrUnauthorized}
	case a.token && (a.status == http.StatusNotFound || a.status == http.StatusGone):
		return []error{ErrUnauthorized} // the installation is gone, which says nothing of the thing asked about
	case a.token:
		return nil
	case a.status == http.StatusNotFound, a.status == http.StatusGone:
		return []error{ErrNotFound}
	case a.status == http.StatusConflict && op.effect == mints:
		return []error{ErrNameTaken}
	case a.status == http.StatusUnprocessableEntity && op.effect == deletes:
		return []error{ErrRunnerBusy}
	case op.effect == acts && (a.status == http.StatusConflict || a.status == http.StatusUnprocessableEntity):
		return []error{ErrRefused}
	case op.unsafe() && (a.status >= 500 || a.status == http.StatusRequestTimeout):
		return []error{ErrUnknown}
	}
	return nil
}

// lacksPermission are GitHub's words for an App that may not.
var lacksPermission = regexp.MustCompile(`(?i)not accessible by integration|must have admin|suspended|saml|not authorized|permission`)

func advice(op operation, e *CallError) string {
	switch {
	case op.effect == converts:
		return ""
	case errors.Is(e, ErrUnauthorized):
		return " (check the App's private key, that it is still installed, and its permissions: Actions read, write to rerun and cancel, and self-hosted runners write)"
	case errors.Is(e, ErrUnknown):
		return " (look for the name before minting it again)"
	}
	return ""
}

// secretShapes are GitHub's tokens, JSON web tokens and credentials in a header line.
var secretShapes = regexp.MustCompile(`(?i)(gh[a-z]_[a-z0-9_]{6,}|github_pat_[a-z0-9_]+|v1\.[0-9a-f]{20,}|eyJ[a-z0-9_-]{8,}(\.[a-z0-9_=-]+)*|(bearer|token)\s+[a-z0-9_.=-]{16,}|-----BEGIN[^-]*-----[^-]*(-----END[^-]*-----)?)`)

const maxMessage = 300

// scrub makes outside text fit for an error: no secret, no control characters, not long.
func scrub(s, secret string) string {
	if secret != "" {
		s = strings.ReplaceAll(s, secret, "[secret]")
	}
	s = secretShapes.ReplaceAllString(s, "[secret]")
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return strings.TrimSpace(s)
}
