package auth

// HashWith hashes with costs of the test's own.
func HashWith(memory, time uint32, threads uint8, password string) string {
	p := argonParams{memory: memory, time: time, threads: threads}
	salt := []byte("a salt for tests")
	return format(p, salt, derive(p, password, salt, keyLen))
}

// Reformat reads a PHC string and writes it again; false when it cannot be read.
func Reformat(hash string) (string, bool) {
	p, salt, key, err := parsePHC(hash)
	if err != nil {
		return "", false
	}
	return format(p, salt, key), true
}
