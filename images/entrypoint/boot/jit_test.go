package boot

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// canary is what must never be seen outside the runner's own input.
const canary = "canary-5f1d77-secret"

// testJIT is a JIT configuration of the form that GitHub gives.
func testJIT(t testing.TB, drop ...string) string {
	t.Helper()
	members := map[string]string{}
	for _, name := range jitMembers {
		members[name] = base64.StdEncoding.EncodeToString([]byte(`{"x":"` + canary + `"}`))
	}
	for _, name := range drop {
		delete(members, name)
	}
	raw, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func TestCleanJITTakesOffWhatCopyingLeaves(t *testing.T) {
	t.Parallel()
	jit := testJIT(t)
	half := len(jit) / 2
	for name, raw := range map[string]string{
		"clean":                jit,
		"newline at the end":   jit + "\n",
		"windows newline":      jit + "\r\n",
		"wrapped lines":        jit[:half] + "\n" + jit[half:],
		"spaces inside":        " " + jit[:half] + "  " + jit[half:] + "\t",
		"double quotes":        `"` + jit + `"`,
		"single quotes":        `'` + jit + `'`,
		"quotes within quotes": `'"` + jit + `"'` + "\n",
		"escaped newline":      `"` + jit[:half] + `\n` + jit[half:] + `\r\n"`,
		"escaped quotes":       `\"` + jit + `\"`,
		"byte order mark":      "\ufeff" + jit,
		"typographic quotes":   "\u201c" + jit + "\u201d",
		"no-break space":       "\u00a0" + jit + "\u200b",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := CleanJIT(raw)
			if err != nil || got != jit {
				t.Fatalf("CleanJIT: %v, equal %t", err, got == jit)
			}
		})
	}
}

func TestCleanJITRefusesWhatTheRunnerCannotUse(t *testing.T) {
	t.Parallel()
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for name, tc := range map[string]struct{ raw, want string }{
		"nothing but quotes": {`""`, "empty"},
		"not base64":         {canary + "!", "not base64"},
		"cut short":          {testJIT(t)[:101], "not base64"},
		"not JSON":           {b64(canary), "JSON"},
		"a list":             {b64(`["` + canary + `"]`), "JSON"},
		"a number in it":     {b64(`{".runner":1}`), "JSON"},
		"no settings":        {testJIT(t, ".runner"), ".runner is missing"},
		"no credentials":     {testJIT(t, ".credentials"), ".credentials is missing"},
		"no key":             {testJIT(t, ".credentials_rsaparams"), ".credentials_rsaparams is missing"},
		"member not base64":  {b64(`{".runner":"` + canary + `!"}`), ".runner is missing or not base64"},
		"far too long":       {strings.Repeat("QUJD", maxJITBytes), "longer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := CleanJIT(tc.raw)
			if err == nil || got != "" || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want %q", err, tc.want)
			}
			if strings.Contains(err.Error(), canary) {
				t.Fatalf("the error repeats the value: %v", err)
			}
		})
	}
}

func FuzzCleanJIT(f *testing.F) {
	f.Add(testJIT(f))
	f.Add(`"` + testJIT(f) + "\"\r\n")
	f.Add("\ufeff")
	f.Add(`\n\r"`)
	f.Add("e30=")
	f.Add("bnVsbA==")
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := CleanJIT(raw)
		if err != nil {
			if got != "" || !utf8.ValidString(err.Error()) || len(err.Error()) > 100 {
				t.Fatalf("on error: value %t, message %q", got != "", err)
			}
			return
		}
		again, err := CleanJIT(got)
		if err != nil || again != got {
			t.Fatalf("cleaning twice is not cleaning once: %v", err)
		}
		var members map[string]string
		decoded, err := base64.StdEncoding.DecodeString(got)
		if err != nil || json.Unmarshal(trimBOM(decoded), &members) != nil || members[".runner"] == "" {
			t.Fatalf("accepted what the runner cannot read: %v", err)
		}
	})
}
