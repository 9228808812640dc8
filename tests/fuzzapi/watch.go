package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"strings"
	"sync"

	"github.com/zoomies-fleet/zoomies/controller/auth"
)

// marker begins every canary, so that one search finds them all.
const marker = "cAnArY7"

// watch knows every secret of a world.
type watch struct {
	what  map[string]string // by secret
	order []string
}

func newWatch() *watch { return &watch{what: map[string]string{}} }

// fresh makes a secret to plant.
func (w *watch) fresh(what string) string {
	canary := marker + rand.Text()[:20]
	w.what[canary] = what
	return canary
}

// add watches for a secret that was made elsewhere.
func (w *watch) add(what, secret string) {
	if _, known := w.what[secret]; known || len(secret) < 12 {
		return
	}
	w.what[secret] = what
	if !strings.HasPrefix(secret, marker) {
		w.order = append(w.order, secret)
	}
}

// token watches for a token and for its hash.
func (w *watch) token(what, token string) {
	w.add(what, token)
	w.add(what+"'s hash", auth.HashToken(token))
}

// key watches for a key by its lines, since line ends are written in many ways.
func (w *watch) key(what, pem string) {
	for i, line := range strings.Split(strings.TrimSpace(pem), "\n") {
		if i == 2 || i == 5 { // the first lines of all keys look alike
			w.add(what, strings.TrimSpace(line))
		}
	}
}

// knows says what a text is, if it is a secret.
func (w *watch) knows(secret string) bool { _, ok := w.what[secret]; return ok }

// find names the first secret in some text.
func (w *watch) find(text []byte) (what, secret string) {
	if i := bytes.Index(text, []byte(marker)); i >= 0 {
		secret = string(text[i:min(len(text), i+len(marker)+20)])
		if what = w.what[secret]; what == "" {
			what = "a secret of another request"
		}
		return what, secret
	}
	for _, s := range w.order {
		if bytes.Contains(text, []byte(s)) {
			return w.what[s], s
		}
	}
	return "", ""
}

// recorder keeps what is written until it is taken.
type recorder struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements io.Writer.
func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(b)
}

func (r *recorder) take() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := bytes.Clone(r.buf.Bytes())
	r.buf.Reset()
	return out
}

// mustJSON is for values that have a JSON form.
func mustJSON(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
