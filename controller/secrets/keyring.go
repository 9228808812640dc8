package secrets

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// KeySize is the length of a key in bytes: AES-256.
const KeySize = 32

// Keyring holds the keys of a key file: the newest seals, all of them open. It is safe for
// concurrent use and never changes: a rotation makes a new one.
type Keyring struct {
	path string
	keys []key // oldest first
}

// key is one key and the cipher made of it.
type key struct {
	id      string
	raw     []byte
	created time.Time
	aead    cipher.AEAD
}

// String hides the keys.
func (k *Keyring) String() string { return fmt.Sprintf("[%d keys]", len(k.keys)) }

// GoString hides the keys.
func (k *Keyring) GoString() string { return k.String() }

// Newest returns the ID of the key that seals.
func (k *Keyring) Newest() string { return k.newest().id }

// KeyIDs returns the IDs of all keys, oldest first. An ID says nothing about its key.
func (k *Keyring) KeyIDs() []string {
	ids := make([]string, len(k.keys))
	for i := range k.keys {
		ids[i] = k.keys[i].id
	}
	return ids
}

func (k *Keyring) newest() *key { return &k.keys[len(k.keys)-1] }

// find returns the key of that ID, or nil.
func (k *Keyring) find(id string) *key {
	for i := range k.keys {
		if k.keys[i].id == id {
			return &k.keys[i]
		}
	}
	return nil
}

// newKey draws a fresh random key.
func newKey(now time.Time) (key, error) {
	raw := make([]byte, KeySize)
	if _, err := rand.Read(raw); err != nil {
		return key{}, fmt.Errorf("cannot draw a key: %w", err)
	}
	return keyOf(raw, now)
}

// keyOf prepares the cipher of raw.
func keyOf(raw []byte, created time.Time) (key, error) {
	if len(raw) != KeySize {
		return key{}, fmt.Errorf("the key has %d bytes instead of %d", len(raw), KeySize)
	}
	block, err := aes.NewCipher(raw)
	if err != nil {
		return key{}, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return key{}, err
	}
	return key{id: keyID(raw), raw: raw, created: created, aead: aead}, nil
}

// keyID derives a key's public name from the key, so that a damaged key does not fit its own name.
func keyID(raw []byte) string {
	sum := sha256.Sum256(append([]byte("zoomies key id\x00"), raw...))
	return hex.EncodeToString(sum[:4])
}
