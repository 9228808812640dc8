package marks_test

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/zoomies-fleet/zoomies/provider"
	"github.com/zoomies-fleet/zoomies/provider/marks"
)

var plain = provider.Mark{Fleet: "ins_1", Machine: "mac_7h2", Resource: "9104", Nonce: "KJ3"}

func format(t rapid.TB, m provider.Mark) string {
	t.Helper()
	text, err := marks.Format(m)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// kept is what a description comes back as: Proxmox keeps it as comment lines with control characters, non-ASCII, colons and percent
// signs escaped, decodes it when asked, and drops a newline at the end.
func kept(text string) string {
	var file strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		file.WriteString("#")
		for _, b := range []byte(line) {
			if b < ' ' || b > '~' || b == ':' || b == '%' {
				fmt.Fprintf(&file, "%%%02X", b)
				continue
			}
			file.WriteByte(b)
		}
		file.WriteString("\n")
	}
	var back []string
	for line := range strings.SplitSeq(strings.TrimSuffix(file.String(), "\n"), "\n") {
		text, err := url.PathUnescape(strings.TrimPrefix(line, "#"))
		if err != nil {
			panic(err)
		}
		back = append(back, text)
	}
	return strings.Join(back, "\n")
}

func TestForPeople(t *testing.T) {
	t.Parallel()
	text := format(t, plain)
	first, last, _ := strings.Cut(text, "\n")
	if !strings.Contains(first, "ins_1") || strings.Contains(last, "\n") {
		t.Errorf("it says %q", text)
	}
	const want = "[zoomies-mark v1 fleet=ins_1 machine=mac_7h2 resource=9104 nonce=KJ3 sum="
	if !strings.HasPrefix(last, want) {
		t.Errorf("the record is %q, want %q…: what is out there has to stay readable", last, want)
	}
}

var text = rapid.OneOf(rapid.String(), rapid.StringMatching(`[ -~]*`), rapid.StringMatching(`(note: 50%25|#hash|\n|\r\n| )*`))

func mark(t *rapid.T) provider.Mark {
	field := rapid.OneOf(rapid.StringMatching(`[a-z0-9_-]{1,20}`), rapid.StringN(1, 20, 60))
	return provider.Mark{Fleet: field.Draw(t, "fleet"), Machine: field.Draw(t, "machine"), Resource: field.Draw(t, "resource"), Nonce: field.Draw(t, "nonce")}
}

var printable = regexp.MustCompile(`^[ -~\n]*[^\n]$`)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := mark(t)
		written := format(t, m)
		if len(written) > marks.MaxText || !printable.MatchString(written) {
			t.Fatalf("it does not fit a description: %q", written)
		}
		edited := text.Filter(func(s string) bool { return !strings.Contains(s, "[") })
		around := edited.Draw(t, "before") + written + edited.Draw(t, "after")
		if rapid.Bool().Draw(t, "wrapped") {
			around = strings.ReplaceAll(around, " ", "\r\n  ")
		}
		if got, err := marks.Parse(kept(around)); err != nil || got != m {
			t.Fatalf("read %+v, %v from %q", got, err, around)
		}
	})
}

// A slip of the hand inside of the record never makes it somebody else's.
func TestASlipIsSeen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := mark(t)
		written := []byte(format(t, m))
		from := strings.Index(string(written), "[zoomies")
		at := rapid.IntRange(from, len(written)-1).Draw(t, "at")
		switch rapid.IntRange(0, 2).Draw(t, "how") {
		case 0:
			written[at] = rapid.Byte().Draw(t, "with")
		case 1:
			written = append(written[:at], written[at+1:]...)
		case 2:
			written = append(written[:at:at], append([]byte{rapid.Byte().Draw(t, "more")}, written[at:]...)...)
		}
		if got, err := marks.Parse(string(written)); err == nil && got != m {
			t.Fatalf("%q reads as %+v, and was %+v", written, got, m)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	good := format(t, plain)
	for _, tt := range []struct{ name, text, word string }{
		{"nothing", "", "no ownership record"},
		{"other text", "a VM of mine", "no ownership record"},
		{"two", good + "\n" + good, "two or more"},
		{"two of two machines", good + format(t, provider.Mark{Fleet: "a", Machine: "b", Resource: "c", Nonce: "d"}), "two or more"},
		{"no end", strings.TrimSuffix(good, "]"), "does not end"},
		{"another version", strings.Replace(good, " v1 ", " v2 ", 1), "version"},
		{"an edited number", strings.Replace(good, "9104", "9105", 1), "changed"},
		{"another case", strings.Replace(good, "KJ3", "kj3", 1), "changed"},
		{"a field less", strings.Replace(good, " nonce=KJ3", "", 1), "words"},
		{"an empty field", strings.Replace(good, "nonce=KJ3", "nonce=", 1), "nonce is missing"},
		{"a bad escape", strings.Replace(good, "KJ3", "%zz", 1), "nonce"},
		{"a split in a value", strings.Replace(good, "KJ3", "K J3", 1), "words"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := marks.Parse(tt.text)
			if err == nil || !strings.Contains(err.Error(), tt.word) || got != (provider.Mark{}) {
				t.Errorf("read %+v, %v, want an error with %q", got, err, tt.word)
			}
			if errors.Is(err, marks.ErrNone) != (tt.word == "no ownership record") {
				t.Errorf("%v", err)
			}
		})
	}
}

func TestFormatRefuses(t *testing.T) {
	t.Parallel()
	long := plain
	long.Nonce = strings.Repeat("n", marks.MaxText)
	for name, m := range map[string]provider.Mark{"empty": {}, "no nonce": {Fleet: "a", Machine: "b", Resource: "c"}, "too long": long} {
		if text, err := marks.Format(m); !errors.Is(err, provider.ErrInvalid) || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// Whatever is read was written by Format, spaces apart.
func FuzzParse(f *testing.F) {
	f.Add(format(f, plain))
	f.Add("")
	f.Add(strings.Replace(format(f, plain), "mark v1", "markv1", 1))
	f.Add("[zoomies-mark v1 fleet=%41 machine=b resource=c nonce=d sum=00000000]")
	f.Add(format(f, plain) + "\nnote\n" + format(f, plain))
	f.Fuzz(func(t *testing.T, text string) {
		m, err := marks.Parse(text)
		if err != nil {
			if m != (provider.Mark{}) {
				t.Errorf("%+v beside %v", m, err)
			}
			return
		}
		_, record, _ := strings.Cut(format(t, m), "\n")
		if !strings.Contains(strings.Join(strings.Fields(strings.ReplaceAll(text, "]", " ] ")), " "), strings.Replace(record, "]", " ]", 1)) {
			t.Errorf("%q was read from %q", m, text)
		}
	})
}
