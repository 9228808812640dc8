// Package only restricts what can be reached through a tunnel: a few paths of a handler, and
// nothing else.
package only

import (
	"net/http"
	"path"
	"strings"
)

// Paths lets requests through whose path is one of the allowed ones: a path as it is, or, where
// it ends in a slash, everything below it. All else is answered with 404, as if it did not
// exist. A path that is not in its plain form is refused, so that next cannot read it as
// another one.
func Paths(next http.Handler, allowed ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !permits(r, allowed) {
			http.NotFound(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func permits(r *http.Request, allowed []string) bool {
	p := r.URL.Path
	if r.Method == http.MethodConnect || !strings.HasPrefix(p, "/") || strings.ContainsAny(p, "\\\x00") {
		return false
	}
	// An escaped slash or dot would look like one path here and like another further on.
	if r.URL.RawPath != "" {
		return false
	}
	if plain := path.Clean(p); plain != p && plain+"/" != p {
		return false
	}
	for _, a := range allowed {
		if p == a && !strings.HasSuffix(a, "/") {
			return true
		}
		if strings.HasSuffix(a, "/") && strings.HasPrefix(p, a) && len(p) > len(a) {
			return true
		}
	}
	return false
}
