package github

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

// MaxDelivery bounds a webhook's body, in bytes. GitHub's own cap is 25 MiB, but a workflow_job is far below a tenth of this.
const MaxDelivery = 5 << 20

// Delivery is a webhook as it came in. Nothing in it has been parsed: pass Body and Signature to Verify first.
type Delivery struct {
	ID        string // GitHub's GUID; a redelivery repeats it
	Event     string // workflow_job, ping, …
	Signature string // X-Hub-Signature-256
	Body      []byte // exactly the bytes that were signed

	form bool
}

// DeliveryError says why a request is no delivery, and the HTTP status to answer with.
type DeliveryError struct {
	Status int
	Reason string
}

func (e *DeliveryError) Error() string { return "cannot read the webhook: " + e.Reason }

func refuse(status int, format string, args ...any) error {
	return &DeliveryError{Status: status, Reason: fmt.Sprintf(format, args...)}
}

var (
	deliveryID = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	eventName  = regexp.MustCompile(`^[a-z_]{1,64}$`)
)

// ReadDelivery reads a webhook request of at most limit bytes; 0 is MaxDelivery. Its error is a *DeliveryError. It does not
// answer the request, and does not trust it either: see Verify.
func ReadDelivery(r *http.Request, limit int64) (Delivery, error) {
	if limit <= 0 {
		limit = MaxDelivery
	}
	if r.Method != http.MethodPost {
		return Delivery{}, refuse(http.StatusMethodNotAllowed, "GitHub posts deliveries, this is a %q request", scrub(r.Method, ""))
	}
	d := Delivery{ID: r.Header.Get("X-GitHub-Delivery"), Event: r.Header.Get("X-GitHub-Event"), Signature: r.Header.Get("X-Hub-Signature-256")}
	switch {
	case !deliveryID.MatchString(d.ID):
		return Delivery{}, refuse(http.StatusBadRequest, "the header X-GitHub-Delivery is missing or malformed")
	case !eventName.MatchString(d.Event):
		return Delivery{}, refuse(http.StatusBadRequest, "the header X-GitHub-Event is missing or malformed")
	case d.Signature == "":
		return Delivery{}, refuse(http.StatusUnauthorized, "it is not signed; set the webhook's secret at GitHub")
	}
	switch kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); {
	case err == nil && kind == "application/json":
	case err == nil && kind == "application/x-www-form-urlencoded":
		d.form = true
	default:
		return Delivery{}, refuse(http.StatusUnsupportedMediaType, "its content type is neither application/json nor application/x-www-form-urlencoded")
	}
	if r.ContentLength > limit {
		return Delivery{}, refuse(http.StatusRequestEntityTooLarge, "it is larger than %d bytes", limit)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case int64(len(body)) > limit:
		return Delivery{}, refuse(http.StatusRequestEntityTooLarge, "it is larger than %d bytes", limit)
	case err != nil:
		if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
			return Delivery{}, refuse(http.StatusRequestEntityTooLarge, "it is larger than %d bytes", tooLarge.Limit)
		}
		return Delivery{}, refuse(http.StatusBadRequest, "its body broke off")
	}
	d.Body = body
	return d, nil
}

// Payload returns the JSON inside the body, which a form wraps. Call it only after Verify.
func (d Delivery) Payload() ([]byte, error) {
	if !d.form {
		return d.Body, nil
	}
	values, err := url.ParseQuery(string(d.Body))
	if err != nil || len(values["payload"]) != 1 {
		return nil, fmt.Errorf("cannot read the webhook: %w: the form must have one payload", ErrMalformed)
	}
	return []byte(values["payload"][0]), nil
}

// Ignored says why a delivery of this event changes nothing; "" means that it is a workflow_job and must be parsed.
func (d Delivery) Ignored() string {
	switch d.Event {
	case "workflow_job":
		return ""
	case "ping":
		return "ping: GitHub tests the connection"
	}
	return "the event " + d.Event + " says nothing about jobs; the webhook needs only workflow_job"
}

// Verify says whether signature is body's HMAC-SHA256 under one of the secrets. Every secret is tried, each in constant
// time, so that timing tells neither which one matched nor how nearly. An empty secret verifies nothing.
func Verify(body []byte, signature string, all []secrets.Value) bool {
	encoded, ok := strings.CutPrefix(signature, "sha256=")
	if !ok || len(encoded) != 2*sha256.Size {
		return false
	}
	given, err := hex.DecodeString(encoded)
	if err != nil {
		return false
	}
	verified := false
	for _, s := range all {
		if s.Empty() {
			continue
		}
		mac := hmac.New(sha256.New, s.Reveal())
		mac.Write(body)
		if hmac.Equal(mac.Sum(nil), given) {
			verified = true
		}
	}
	return verified
}
