package boot

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// The files that a JIT configuration holds, each base64 again (actions/runner
// src/Runner.Listener/Runner.cs writes one file for each member).
var jitMembers = []string{".runner", ".credentials", ".credentials_rsaparams"}

var errNotBase64 = errors.New("it is not base64")

// maxJITBytes bounds what is decoded. A real configuration is about 4 KiB.
const maxJITBytes = 256 << 10

// CleanJIT takes off what copying and templating leave around a JIT configuration (white
// space, newlines also when written as \n, quotes, byte order marks) and checks that the rest
// is what the runner expects. Its errors never hold a part of the value.
func CleanJIT(raw string) (string, error) {
	if len(raw) > maxJITBytes {
		return "", fmt.Errorf("it is longer than %d KiB", maxJITBytes>>10)
	}
	jit := cleanLine(raw)
	if jit == "" {
		return "", errors.New("it is empty")
	}
	decoded, err := base64.StdEncoding.Strict().DecodeString(jit)
	if err != nil {
		return "", errNotBase64
	}
	var members map[string]string
	if err := json.Unmarshal(trimBOM(decoded), &members); err != nil {
		return "", errors.New("it does not hold a JSON object of texts")
	}
	for _, name := range jitMembers {
		file, err := base64.StdEncoding.DecodeString(members[name])
		if err != nil || len(file) == 0 {
			return "", fmt.Errorf("its member %s is missing or not base64", name)
		}
	}
	return jit, nil
}

var escapes = strings.NewReplacer(`\r`, "", `\n`, "", `\t`, "", `\"`, "")

// cleanLine drops white space, quotes of every kind and invisible marks anywhere in s: none
// of them can be part of base64, a token or a URL.
func cleanLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '"', '\'', '`', '\u2018', '\u2019', '\u201c', '\u201d', '\u200b', '\ufeff', 0:
			return -1
		}
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, escapes.Replace(s))
}
