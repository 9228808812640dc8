package controller

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The controller's own routes are kept so.
func TestControllersRoutesRecover(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigOptions{still: true})
	const path = "/webhooks/github"
	h := r.c().Handler()
	r.c().store, r.c().metrics = nil, nil // any fault will do
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(`{"host":"a","ttl":"1h"}`)))
	if w.Code != http.StatusInternalServerError || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s answered %d %s", path, w.Code, w.Body)
	}
	if !strings.Contains(r.log.String(), "a request panicked") {
		t.Error("the controller's log says nothing")
	}
}
