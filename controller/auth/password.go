package auth

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
)

// Errors that callers branch on.
var (
	// ErrPassword says that a password is not the one that was hashed.
	ErrPassword = errors.New("wrong password")
	// ErrPasswordHash says that a stored hash cannot be read.
	ErrPasswordHash = errors.New("stored password hash is damaged; set the password again")
)

// argonParams are the costs of one argon2id hash. They travel in the hash, so that they can be
// raised without making old hashes useless.
type argonParams struct {
	memory  uint32 // KiB
	time    uint32 // passes
	threads uint8
}

// current is OWASP's recommendation for argon2id: 19 MiB, two passes, one lane.
var current = argonParams{memory: 19 * 1024, time: 2, threads: 1}

// Bounds on what a stored hash may ask for, so that a planted one cannot exhaust the machine.
const (
	maxMemory  = 1 << 20 // KiB: 1 GiB
	maxTime    = 64
	maxThreads = 32
	saltLen    = 16
	keyLen     = 32
	maxLen     = 128 // bytes of a salt or key
)

var b64 = base64.RawStdEncoding.Strict()

// HashPassword hashes a password with argon2id and a random salt, in PHC string format:
// $argon2id$v=19$m=19456,t=2,p=1$salt$hash.
func HashPassword(password string) string {
	var salt [saltLen]byte
	_, _ = rand.Read(salt[:]) // never fails
	return format(current, salt[:], derive(current, password, salt[:], keyLen))
}

// VerifyPassword compares a password with a hash that HashPassword made, in constant time. It
// returns ErrPassword when they differ and ErrPasswordHash when the hash cannot be read.
func VerifyPassword(hash, password string) error {
	p, salt, want, err := parsePHC(hash)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare(derive(p, password, salt, uint32(len(want))), want) != 1 {
		return ErrPassword
	}
	return nil
}

// NeedsRehash says that a hash was made with other costs than today's: hash the password anew
// the next time it is given.
func NeedsRehash(hash string) bool {
	p, salt, key, err := parsePHC(hash)
	return err != nil || p != current || len(salt) != saltLen || len(key) != keyLen
}

func derive(p argonParams, password string, salt []byte, length uint32) []byte {
	return argon2.IDKey([]byte(password), salt, p.time, p.memory, p.threads, length)
}

func format(p argonParams, salt, key []byte) string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, p.memory, p.time, p.threads,
		b64.EncodeToString(salt), b64.EncodeToString(key))
}

// parsePHC takes a PHC string apart. It accepts exactly what format writes.
func parsePHC(hash string) (p argonParams, salt, key []byte, err error) {
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return p, nil, nil, ErrPasswordHash
	}
	costs := strings.Split(parts[3], ",")
	if len(costs) != 3 {
		return p, nil, nil, ErrPasswordHash
	}
	memory, ok1 := cost(costs[0], "m=", 8, maxMemory)
	time, ok2 := cost(costs[1], "t=", 1, maxTime)
	threads, ok3 := cost(costs[2], "p=", 1, maxThreads)
	salt, err1 := b64.DecodeString(parts[4])
	key, err2 := b64.DecodeString(parts[5])
	if !ok1 || !ok2 || !ok3 || err1 != nil || err2 != nil ||
		len(salt) < 8 || len(salt) > maxLen || len(key) < 16 || len(key) > maxLen {
		return p, nil, nil, ErrPasswordHash
	}
	p = argonParams{memory: uint32(memory), time: uint32(time), threads: uint8(threads)}
	if format(p, salt, key) != hash { // base64 skips line breaks
		return argonParams{}, nil, nil, ErrPasswordHash
	}
	return p, salt, key, nil
}

// cost reads "name=number" where the number is canonical and within bounds.
func cost(text, name string, least, most uint64) (uint64, bool) {
	digits, ok := strings.CutPrefix(text, name)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || strconv.FormatUint(n, 10) != digits {
		return 0, false
	}
	return n, n >= least && n <= most
}
