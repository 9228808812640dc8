package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
)

// recorder keeps an answer of JSON until it is whole, and passes everything else on as it comes.
type recorder struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
	passes bool // the answer is a stream, or no JSON
}

func (r *recorder) WriteHeader(status int) {
	if r.status != 0 {
		return
	}
	r.status = status
	if kind := r.Header().Get("Content-Type"); kind != "" && !strings.HasSuffix(kind, "json") {
		r.passes = true
		r.ResponseWriter.WriteHeader(status)
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.WriteHeader(http.StatusOK)
	}
	if r.passes {
		return r.ResponseWriter.Write(b)
	}
	return r.body.Write(b)
}

// Unwrap lets http.ResponseController reach what is below, which a stream needs.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Flush is for streams; an answer that is kept is not flushed.
func (r *recorder) Flush() {
	if f, ok := r.ResponseWriter.(http.Flusher); ok && r.passes {
		f.Flush()
	}
}

// send passes the kept answer on.
func (r *recorder) send() {
	if r.passes {
		return
	}
	if r.status == 0 {
		r.status = http.StatusOK
	}
	r.ResponseWriter.WriteHeader(r.status)
	_, _ = r.ResponseWriter.Write(r.body.Bytes()) // the client is gone: nothing to do
}

// tagged gives reads an ETag, and answers 304 to whoever has it already.
func (s *Server) tagged(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		rec := &recorder{ResponseWriter: w}
		next.ServeHTTP(rec, r)
		if rec.passes || rec.status != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
			rec.send()
			return
		}
		tag := etag(rec.body.Bytes())
		w.Header().Set("ETag", tag)
		if matches(r.Header.Get("If-None-Match"), tag) {
			w.Header().Del("Content-Type")
			w.WriteHeader(http.StatusNotModified)
			return
		}
		rec.send()
	})
}

// seen are fields of what can be changed that nobody changes: the fleet notes there what it sees.
var seen = []string{"hold_until", "hold_reason", "last_delivery_at", "last_sign_in_at"}

// etag is a tag in two parts: one of the resource as people make it, which If-Match compares, and one of the answer whole, so that
// whoever has it already also learns what the fleet has seen since.
func etag(body []byte) string {
	made := body
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) == nil {
		for _, name := range seen {
			delete(fields, name)
		}
		made, _ = json.Marshal(fields) // in one order, whether there was something to leave out or not
	}
	return `"` + digest(made) + "." + digest(body) + `"`
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// sameMade says whether two tags are of one resource, whatever the fleet has seen of it between them.
func sameMade(a, b string) bool {
	a, _, _ = strings.Cut(a, ".")
	b, _, _ = strings.Cut(b, ".")
	return a == b
}

// etagOf is the tag of the answer that shows v.
func etagOf(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // as huma writes it
	err := enc.Encode(v)
	return etag(b.Bytes()), err
}

func matches(header, tag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		part = strings.TrimPrefix(strings.TrimSpace(part), "W/")
		if part == tag || part == "*" {
			return true
		}
	}
	return false
}
