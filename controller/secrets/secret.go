package secrets

import "log/slog"

// Value is a secret in memory. It hides itself from fmt, JSON and slog; Reveal is the one way to
// its bytes.
type Value struct{ b []byte }

// New wraps b, which the caller must not keep.
func New(b []byte) Value { return Value{b: b} }

// Of wraps a string.
func Of(s string) Value { return Value{b: []byte(s)} }

// Reveal returns the secret itself.
func (v Value) Reveal() []byte { return v.b }

// Empty says whether there is a secret at all.
func (v Value) Empty() bool { return len(v.b) == 0 }

const redacted = "[secret]"

// String hides the secret.
func (v Value) String() string { return redacted }

// GoString hides the secret.
func (v Value) GoString() string { return redacted }

// MarshalText hides the secret.
func (v Value) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue hides the secret.
func (v Value) LogValue() slog.Value { return slog.StringValue(redacted) }
