package protocol

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// What travels in the headers of the agent API. The agent token is the bearer token.
const (
	HeaderHost     = "Zoomies-Host"     // the host's ID, beside the bearer token
	HeaderInstance = "Zoomies-Instance" // the run of the agent that speaks
	HeaderProtocol = "Zoomies-Protocol" // the caller's Version
)

// Limits of the HTTP transport, the same on both sides.
const (
	// MaxBody bounds every JSON body, in bytes.
	MaxBody = 1 << 20
	// MaxWait is the longest a poll may ask to wait.
	MaxWait = time.Minute
	// QueryWait is the poll's query parameter: seconds, fractions allowed.
	QueryWait = "wait"
)

// ErrInvalid says that a message cannot be read or is not allowed (400): sending it again
// cannot help.
var ErrInvalid = errors.New("the message is not valid")

// The codes of an error body. A code, and not the sentence, decides what the error is.
const (
	codeUnauthorized = "unauthorized"
	codeConflict     = "conflict"
	codeInvalid      = "invalid"
	codeInternal     = "internal"
)

// errorClass ties an error that both halves branch on to its status and code.
var errorClasses = []struct {
	err    error
	status int
	code   string
}{
	{ErrUnauthorized, http.StatusUnauthorized, codeUnauthorized},
	{ErrConflict, http.StatusConflict, codeConflict},
	{ErrInvalid, http.StatusBadRequest, codeInvalid},
}

// ErrorBody is the JSON of every answer that is not a success.
type ErrorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// StatusError is an answer that is none of the errors both halves branch on: a fault of the
// controller, or of something between. It may be tried again.
type StatusError struct {
	Status  int
	Message string
}

// Error says what the other side answered.
func (e *StatusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("the controller answered %d %s", e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("the controller answered %d: %s", e.Status, e.Message)
}

// StatusOf returns the HTTP status and the code for err.
func StatusOf(err error) (status int, code string) {
	for _, c := range errorClasses {
		if errors.Is(err, c.err) {
			return c.status, c.code
		}
	}
	return http.StatusInternalServerError, codeInternal
}

// ErrorOf turns an answer's status and body into an error: one that wraps the class that the
// code names, or a *StatusError. A proxy's 401 without our code is a StatusError too: only
// the controller itself may say that it does not know a credential.
func ErrorOf(status int, body []byte) error {
	var b ErrorBody
	if json.Unmarshal(body, &b) != nil {
		return &StatusError{Status: status}
	}
	for _, c := range errorClasses {
		if c.code == b.Code && c.status == status {
			if b.Message == "" || b.Message == c.err.Error() {
				return c.err
			}
			return &classError{class: c.err, message: b.Message}
		}
	}
	return &StatusError{Status: status, Message: b.Message}
}

// classError keeps the other side's sentence and the class it belongs to.
type classError struct {
	class   error
	message string
}

func (e *classError) Error() string { return e.message }
func (e *classError) Unwrap() error { return e.class }

// WriteError answers with err's status and an ErrorBody. What is not one of the shared
// classes is an internal fault, whose text stays on this side.
func WriteError(w http.ResponseWriter, err error) {
	status, code := StatusOf(err)
	message := err.Error()
	if code == codeInternal {
		message = "the controller could not do it; its log says why"
	}
	WriteJSON(w, status, ErrorBody{Code: code, Message: message})
}

// WriteJSON answers with v.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"code":"`+codeInternal+`"}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(append(data, '\n'))
}

// Decode reads exactly one JSON value of at most MaxBody bytes from r into v. Fields it does
// not know are let pass, since the two halves may be of different versions. Its errors wrap
// ErrInvalid, unless r itself failed.
func Decode(r io.Reader, v any) error {
	lr := &io.LimitedReader{R: r, N: MaxBody + 1}
	data, err := io.ReadAll(lr)
	if err != nil {
		return fmt.Errorf("cannot read the message: %w", err)
	}
	if len(data) > MaxBody {
		return fmt.Errorf("%w: it is larger than %d bytes", ErrInvalid, MaxBody)
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%w: %s", ErrInvalid, jsonFault(err))
	}
	return nil
}

// jsonFault describes a decoding error without quoting the document, which may hold secrets.
func jsonFault(err error) string {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return "it is not JSON, from byte " + strconv.FormatInt(syntax.Offset, 10)
	}
	if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf("field %q cannot be a JSON %s", kind.Field, jsonKind(kind.Value))
	}
	return "a value in it has the wrong form"
}

// jsonKind drops the value that encoding/json adds to "number".
func jsonKind(s string) string {
	word, _, _ := strings.Cut(s, " ")
	return word
}

// SetCredential puts cred on an outgoing request.
func SetCredential(h http.Header, cred Credential) {
	h.Set("Authorization", "Bearer "+cred.Token)
	h.Set(HeaderHost, cred.HostID)
	if cred.Instance != "" {
		h.Set(HeaderInstance, cred.Instance)
	}
}

// CredentialOf takes the credential from a request; what is missing is ErrUnauthorized.
func CredentialOf(r *http.Request) (Credential, error) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return Credential{}, ErrUnauthorized
	}
	cred := Credential{HostID: r.Header.Get(HeaderHost), Token: strings.TrimSpace(token), Instance: r.Header.Get(HeaderInstance)}
	if cred.HostID == "" || cred.Token == "" {
		return Credential{}, ErrUnauthorized
	}
	return cred, nil
}

// waitOf reads a poll's wait, from 0 to MaxWait.
func waitOf(r *http.Request) (time.Duration, error) {
	s := r.URL.Query().Get(QueryWait)
	if s == "" {
		return 0, nil
	}
	secs, err := strconv.ParseFloat(s, 64)
	if err != nil || !(secs >= 0) {
		return 0, fmt.Errorf("%w: %s must be a number of seconds", ErrInvalid, QueryWait)
	}
	return Seconds(min(secs, MaxWait.Seconds())).Duration(), nil
}

// isJSON says whether a request declares a JSON body.
func isJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}
