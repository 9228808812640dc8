package protocol

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestErrorsTravel(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err   error
		class error
		text  string
	}{
		{ErrUnauthorized, ErrUnauthorized, ErrUnauthorized.Error()},
		{fmt.Errorf("the token is spent: %w", ErrUnauthorized), ErrUnauthorized, "the token is spent"},
		{fmt.Errorf("lease gone: %w", ErrConflict), ErrConflict, "lease gone"},
		{ErrInvalid, ErrInvalid, ErrInvalid.Error()},
	} {
		status, code := StatusOf(tt.err)
		got := ErrorOf(status, fmt.Appendf(nil, `{"code":%q,"message":%q}`, code, tt.err.Error()))
		if !errors.Is(got, tt.class) || !strings.Contains(got.Error(), tt.text) {
			t.Errorf("%v came back as %v", tt.err, got)
		}
	}
}

// A proxy's or a wrong server's 401 must not make an agent give up its credential.
func TestOnlyTheControllerRefusesACredential(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "<html>401</html>", `{"code":"forbidden"}`, `{"message":"no"}`, `{"code":"conflict"}`} {
		err := ErrorOf(http.StatusUnauthorized, []byte(body))
		var status *StatusError
		if errors.Is(err, ErrUnauthorized) || !errors.As(err, &status) {
			t.Errorf("body %q: %v", body, err)
		}
	}
}

func TestDecodeQuotesNothing(t *testing.T) {
	t.Parallel()
	for _, doc := range []string{
		`{"token":12345678,"x":1}`, `{"token":"zoojoin_secret`, `{"token":"zoojoin_secret"} extra`, `["zoojoin_secret"]`,
		`{"host":{"cpus":"zoojoin_secret"}}`,
	} {
		var req JoinRequest
		err := Decode(strings.NewReader(doc), &req)
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", doc, err)
			continue
		}
		if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "12345678") {
			t.Errorf("%s: the error quotes it: %v", doc, err)
		}
	}
}

func TestDecodeLimit(t *testing.T) {
	t.Parallel()
	doc := `{"name":"` + strings.Repeat("a", MaxBody) + `"}`
	if err := Decode(strings.NewReader(doc), &JoinRequest{}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a body above MaxBody: %v", err)
	}
	if err := Decode(strings.NewReader(`{"name":"a","later":true}`), &JoinRequest{}); err != nil {
		t.Errorf("a field of a later version: %v", err)
	}
}
