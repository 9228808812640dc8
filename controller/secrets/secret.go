package secrets

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// Value is a secret in memory. It hides itself from fmt (whatever the verb, and as a field that
// fmt reaches without its methods), from JSON and from slog; Reveal is the one way to its bytes.
type Value struct {
	_ [0]func() // not comparable with ==, which takes a time that tells: use Equal
	b *[]byte   // behind a pointer, which is all that reflection prints of it
}

// New wraps b, which the caller must not keep.
func New(b []byte) Value {
	if b == nil {
		return Value{}
	}
	return Value{b: &b}
}

// Of wraps a string.
func Of(s string) Value { return New([]byte(s)) }

// Reveal returns the secret itself.
func (v Value) Reveal() []byte {
	if v.b == nil {
		return nil
	}
	return *v.b
}

// Empty says whether there is no secret at all.
func (v Value) Empty() bool { return len(v.Reveal()) == 0 }

// Equal compares two secrets in constant time.
func (v Value) Equal(w Value) bool {
	return subtle.ConstantTimeCompare(v.Reveal(), w.Reveal()) == 1
}

const redacted = "[secret]"

// String hides the secret.
func (v Value) String() string { return redacted }

// GoString hides the secret.
func (v Value) GoString() string { return redacted }

// Format hides the secret from every verb.
func (v Value) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText hides the secret.
func (v Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue hides the secret.
func (v Value) LogValue() slog.Value { return slog.StringValue(redacted) }
