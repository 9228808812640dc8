package secrets

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Errors that callers branch on.
var (
	// ErrUnknownKey says that a value was sealed with a key the key file does not hold.
	ErrUnknownKey = errors.New("sealed with a key that the key file does not hold; restore the key file that belongs to this database")
	// ErrSealed says that a value does not open: it is damaged, or it was made for another
	// row or column.
	ErrSealed = errors.New("sealed value does not open: it is damaged or belongs to another row")
)

// AAD binds a ciphertext to where it is stored: copied to another row or column it does not open.
type AAD struct{ Table, Column, Row string }

// bytes encodes the binding, each part behind its length so that no two bindings look alike.
func (a AAD) bytes(keyID string) []byte {
	var b []byte
	for _, part := range []string{keyID, a.Table, a.Column, a.Row} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return b
}

// A sealed value reads "z1.<key id>.<base64 of nonce and ciphertext>".
const (
	sealVersion = "z1"
	nonceSize   = 12 // bytes; 96 bits, random for every value
)

var encoding = base64.RawURLEncoding.Strict()

// SealedPrefix is what every value sealed with the key of that ID begins with.
func SealedPrefix(keyID string) string { return sealVersion + "." + keyID + "." }

// KeyIDOf returns the ID of the key that sealed; ok is false for what is not a sealed value.
func KeyIDOf(sealed string) (id string, ok bool) {
	version, rest, found := strings.Cut(sealed, ".")
	if !found || version != sealVersion {
		return "", false
	}
	id, _, ok = strings.Cut(rest, ".")
	return id, ok
}

// Seal encrypts plain with the newest key and binds it to aad.
func (k *Keyring) Seal(plain []byte, aad AAD) (string, error) {
	key := k.newest()
	box := make([]byte, nonceSize, nonceSize+len(plain)+key.aead.Overhead())
	if _, err := rand.Read(box); err != nil {
		return "", fmt.Errorf("cannot seal %s.%s: %w", aad.Table, aad.Column, err)
	}
	box = key.aead.Seal(box, box, plain, aad.bytes(key.id))
	return SealedPrefix(key.id) + encoding.EncodeToString(box), nil
}

// Open decrypts a value that Seal made for the same aad. The error wraps ErrUnknownKey or
// ErrSealed.
func (k *Keyring) Open(sealed string, aad AAD) ([]byte, error) {
	id, ok := KeyIDOf(sealed)
	if !ok {
		return nil, fmt.Errorf("cannot open %s.%s of %s: %w", aad.Table, aad.Column, aad.Row, ErrSealed)
	}
	key := k.find(id)
	if key == nil {
		return nil, fmt.Errorf("cannot open %s.%s of %s: key %.16q: %w", aad.Table, aad.Column, aad.Row, id, ErrUnknownKey)
	}
	text := sealed[len(SealedPrefix(id)):]
	box, err := encoding.DecodeString(text)
	if err != nil || len(box) < nonceSize || strings.ContainsAny(text, "\r\n") { // which base64 skips
		return nil, fmt.Errorf("cannot open %s.%s of %s: %w", aad.Table, aad.Column, aad.Row, ErrSealed)
	}
	plain, err := key.aead.Open(nil, box[:nonceSize], box[nonceSize:], aad.bytes(id))
	if err != nil {
		return nil, fmt.Errorf("cannot open %s.%s of %s: %w", aad.Table, aad.Column, aad.Row, ErrSealed)
	}
	return plain, nil
}
