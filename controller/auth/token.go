package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
)

// The prefixes that say what a token is, so that a leaked one is recognised.
const (
	PrefixJoin    = "zoojoin_"    // admits one host once
	PrefixAPI     = "zoo_"        // a user's bearer token
	PrefixAgent   = "zooagent_"   // a host's bearer token, where the controller chooses it
	PrefixGateway = "zoogateway_" // completes one provider setup
)

const (
	tokenBytes = 32 // randomness of a token
	tokenChars = 43 // 62^43 > 2^256: every token has this many characters after its prefix
)

// NewToken returns prefix and 256 random bits in base 62 (0-9, a-z, A-Z), always 43 characters.
func NewToken(prefix string) string {
	var raw [tokenBytes]byte
	// Read never fails: the runtime ends the process rather than return weak randomness.
	_, _ = rand.Read(raw[:])
	text := new(big.Int).SetBytes(raw[:]).Text(62)
	var token [tokenChars]byte
	for i := range token {
		token[i] = '0'
	}
	copy(token[tokenChars-len(text):], text)
	return prefix + string(token[:])
}

// HashToken returns the SHA-256 of a token in hex: what is stored of it. A token is random
// enough that no salt and no slow hash is needed.
func HashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
