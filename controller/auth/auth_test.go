package auth_test

import (
	"errors"
	"regexp"
	"testing"

	"github.com/zoomies-fleet/zoomies/controller/auth"
)

func TestPasswords(t *testing.T) {
	t.Parallel()
	hash := auth.HashPassword("correct horse")
	if !regexp.MustCompile(`^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$`).MatchString(hash) {
		t.Errorf("not a PHC string with OWASP's parameters: %s", hash)
	}
	if hash == auth.HashPassword("correct horse") {
		t.Error("no salt")
	}
	if err := auth.VerifyPassword(hash, "correct horse"); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"", "correct hors", "correct horse ", "Correct horse"} {
		if err := auth.VerifyPassword(hash, wrong); !errors.Is(err, auth.ErrPassword) {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if auth.NeedsRehash(hash) {
		t.Error("a fresh hash needs a rehash")
	}
}

// A hash made elsewhere or with other costs is verified, and renewed at the next chance.
func TestAHashWithOtherCosts(t *testing.T) {
	t.Parallel()
	// The known answer of argon2's reference implementation for "password" and "somesalt".
	const reference = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	for _, hash := range []string{reference, auth.HashWith(64, 3, 1, "password"), auth.HashWith(256, 1, 4, "password")} {
		if err := auth.VerifyPassword(hash, "password"); err != nil {
			t.Errorf("%s: %v", hash, err)
		}
		if err := auth.VerifyPassword(hash, "no"); !errors.Is(err, auth.ErrPassword) {
			t.Errorf("%s: %v", hash, err)
		}
		if !auth.NeedsRehash(hash) {
			t.Errorf("%s needs no rehash", hash)
		}
	}
}

var badHashes = []string{
	"", "$", "$$$$$", "plain",
	"$argon2i$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0",
	"$argon2id$v=16$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0",
	"$argon2id$v=19$m=4294967295,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0",
	"$argon2id$v=19$m=19456,t=0,p=1$c29tZXNhbHRzb21lc2FsdA$c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0",
	"$argon2id$v=19$m=19456,t=4000000000,p=1$c29tZXNhbHRzb21lc2FsdA$c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0",
	"$argon2id$v=19$m=19456,t=2,p=0$c29tZXNhbHRzb21lc2FsdA$c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0",
	"$argon2id$v=19$m=019456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0",
	"$argon2id$v=19$t=2,m=19456,p=1$c29tZXNhbHRzb21lc2FsdA$c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0",
	"$argon2id$v=19$m=19456,t=2,p=1,x=1$c29tZXNhbHRzb21lc2FsdA$c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0",
	"$argon2id$v=19$m=19456,t=2,p=1$c2Fs$c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0",
	"$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$c29t",
	"$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$!!!!",
	"$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0$",
	"$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$c29tZXNhbHRz\r\nb21lc2FsdHNvbWVzYWx0",
}

func TestDamagedAndGreedyHashesAreRefused(t *testing.T) {
	t.Parallel()
	for _, hash := range badHashes {
		if err := auth.VerifyPassword(hash, "x"); !errors.Is(err, auth.ErrPasswordHash) {
			t.Errorf("%q: %v", hash, err)
		}
		if !auth.NeedsRehash(hash) {
			t.Errorf("%q needs no rehash", hash)
		}
	}
}

// NeedsRehash parses and hashes nothing, so that the fuzzer spends no time on argon2.
func FuzzParsePHC(f *testing.F) {
	for _, hash := range badHashes {
		f.Add(hash)
	}
	f.Add("$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$c29tZXNhbHRzb21lc2FsdHNvbWVzYWx0c29tZXNhbHQ")
	f.Fuzz(func(t *testing.T, hash string) {
		if again, ok := auth.Reformat(hash); ok && again != hash {
			t.Errorf("%q was read as %q", hash, again)
		}
	})
}

func TestTokens(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, prefix := range []string{auth.PrefixJoin, auth.PrefixAPI} {
		for range 200 {
			token := auth.NewToken(prefix)
			if !regexp.MustCompile(`^` + prefix + `[0-9a-zA-Z]{43}$`).MatchString(token) {
				t.Fatalf("token %q", token)
			}
			if seen[token] {
				t.Fatal("the same token twice")
			}
			seen[token] = true
		}
	}
}

func TestHashToken(t *testing.T) {
	t.Parallel()
	const abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-2
	if got := auth.HashToken("abc"); got != abc {
		t.Errorf("got %s", got)
	}
}
