package github

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

func sign(body, secret string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func TestVerify(t *testing.T) {
	t.Parallel()
	const body = "Hello, World!"
	// The example in GitHub's documentation.
	const documented = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	const secret = "It's a Secret to Everybody"
	all := func(s ...string) (v []secrets.Value) {
		for _, x := range s {
			v = append(v, secrets.Of(x))
		}
		return v
	}
	for _, tc := range []struct {
		name, body, signature string
		secrets               []secrets.Value
		want                  bool
	}{
		{"documented", body, documented, all(secret), true},
		{"second secret", body, documented, all("other", secret), true},
		{"first secret", body, documented, all(secret, "other"), true},
		{"wrong secret", body, documented, all("other"), false},
		{"no secret", body, documented, nil, false},
		{"an empty secret signs nothing", body, sign(body, ""), all(""), false},
		{"empty beside a good one", body, documented, all("", secret), true},
		{"another body", body + " ", documented, all(secret), false},
		{"no signature", body, "", all(secret), false},
		{"SHA-1", body, "sha1=" + strings.Repeat("0", 40), all(secret), false},
		{"no prefix", body, strings.TrimPrefix(documented, "sha256="), all(secret), false},
		{"truncated", body, documented[:len(documented)-2], all(secret), false},
		{"extended", body, documented + "00", all(secret), false},
		{"not hex", body, "sha256=" + strings.Repeat("zz", 32), all(secret), false},
	} {
		if got := Verify([]byte(tc.body), tc.signature, tc.secrets); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

func post(body io.Reader, headers map[string]string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/webhooks/github", body)
	for k, v := range map[string]string{
		"X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958", "X-GitHub-Event": "workflow_job",
		"X-Hub-Signature-256": "sha256=00", "Content-Type": "application/json",
	} {
		r.Header.Set(k, v)
	}
	for k, v := range headers {
		if v == "" {
			r.Header.Del(k)
		} else {
			r.Header.Set(k, v)
		}
	}
	return r
}

func TestReadDelivery(t *testing.T) {
	t.Parallel()
	const body = `{"action":"queued"}`
	d, err := ReadDelivery(post(strings.NewReader(body), nil), 0)
	if err != nil || string(d.Body) != body || d.Event != "workflow_job" || d.ID != "72d3162e-cc78-11e3-81ab-4c9367dc0958" || d.Signature != "sha256=00" {
		t.Fatalf("got %+v, %v", d, err)
	}
	if p, err := d.Payload(); err != nil || string(p) != body {
		t.Errorf("payload %q, %v", p, err)
	}

	form := url.Values{"payload": {body}}.Encode()
	d, err = ReadDelivery(post(strings.NewReader(form), map[string]string{"Content-Type": "application/x-www-form-urlencoded"}), 0)
	if err != nil || !Verify(d.Body, sign(form, "s"), []secrets.Value{secrets.Of("s")}) {
		t.Fatalf("a form is signed as it is sent: %+v, %v", d, err)
	}
	if p, err := d.Payload(); err != nil || string(p) != body {
		t.Errorf("payload %q, %v", p, err)
	}
	for _, bad := range []string{"", "other=1", "payload=1&payload=2", "payload=%zz", "a;b=1"} {
		d, err := ReadDelivery(post(strings.NewReader(bad), map[string]string{"Content-Type": "application/x-www-form-urlencoded"}), 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Payload(); !errors.Is(err, ErrMalformed) {
			t.Errorf("form %q: %v", bad, err)
		}
	}
}

func TestReadDeliveryRefuses(t *testing.T) {
	t.Parallel()
	unsized := func(n int) io.Reader { return struct{ io.Reader }{strings.NewReader(strings.Repeat("x", n))} }
	get := post(nil, nil)
	get.Method = http.MethodGet
	capped := post(unsized(200), nil)
	capped.Body = http.MaxBytesReader(nil, capped.Body, 50)
	for _, tc := range []struct {
		name string
		r    *http.Request
		want int
	}{
		{"GET", get, 405},
		{"no GUID", post(nil, map[string]string{"X-GitHub-Delivery": ""}), 400},
		{"odd GUID", post(nil, map[string]string{"X-GitHub-Delivery": "a b\"c"}), 400},
		{"long GUID", post(nil, map[string]string{"X-GitHub-Delivery": strings.Repeat("a", 65)}), 400},
		{"no event", post(nil, map[string]string{"X-GitHub-Event": ""}), 400},
		{"odd event", post(nil, map[string]string{"X-GitHub-Event": "../x"}), 400},
		{"unsigned", post(nil, map[string]string{"X-Hub-Signature-256": ""}), 401},
		{"other type", post(nil, map[string]string{"Content-Type": "text/plain"}), 415},
		{"no type", post(nil, map[string]string{"Content-Type": ""}), 415},
		{"announced too large", post(strings.NewReader(strings.Repeat("x", 101)), nil), 413},
		{"too large", post(unsized(101), nil), 413},
		{"cut by an outer limit", capped, 413},
		{"broken off", post(iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("xx"))), nil), 400},
	} {
		_, err := ReadDelivery(tc.r, 100)
		var refused *DeliveryError
		if !errors.As(err, &refused) || refused.Status != tc.want {
			t.Errorf("%s: got %v, want %d", tc.name, err, tc.want)
		}
	}
	if d, err := ReadDelivery(post(unsized(100), nil), 100); err != nil || len(d.Body) != 100 {
		t.Errorf("at the limit: %v", err)
	}
	if MaxDelivery > 25<<20 {
		t.Error("our limit is above GitHub's")
	}
}

func TestIgnoredEvents(t *testing.T) {
	t.Parallel()
	for event, ignored := range map[string]bool{"workflow_job": false, "ping": true, "push": true, "workflow_run": true} {
		if got := (Delivery{Event: event}).Ignored(); (got != "") != ignored {
			t.Errorf("%s: %q", event, got)
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add([]byte("Hello, World!"), "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17")
	f.Add([]byte(""), "sha256=")
	f.Add([]byte("{}"), "sha1=00")
	f.Fuzz(func(t *testing.T, body []byte, signature string) {
		const secret = "It's a Secret to Everybody"
		got := Verify(body, signature, []secrets.Value{secrets.Of(secret)})
		if want := strings.EqualFold(signature, sign(string(body), secret)) && strings.HasPrefix(signature, "sha256="); got != want {
			t.Errorf("%q over %q: %v", signature, body, got)
		}
	})
}

func FuzzReadDelivery(f *testing.F) {
	f.Add("id-1", "workflow_job", "sha256=00", "application/json", []byte("{}"))
	f.Add("id-1", "ping", "x", "application/x-www-form-urlencoded; charset=utf-8", []byte("payload=%7B%7D"))
	f.Fuzz(func(t *testing.T, id, event, signature, kind string, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body)))
		r.Header = http.Header{"X-Github-Delivery": {id}, "X-Github-Event": {event}, "X-Hub-Signature-256": {signature}, "Content-Type": {kind}}
		d, err := ReadDelivery(r, 64)
		var refused *DeliveryError
		switch {
		case err == nil:
			if len(d.Body) > 64 || string(d.Body) != string(body) || d.ID != id || d.Event != event {
				t.Errorf("got %+v", d)
			}
			_, _ = d.Payload()
			_ = d.Ignored()
		case !errors.As(err, &refused) || refused.Status < 400 || refused.Status > 499:
			t.Errorf("got %v", err)
		}
	})
}
