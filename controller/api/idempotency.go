package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/zoomies-fleet/zoomies/controller/store"
)

const (
	idempotencyHeader = "Idempotency-Key"
	replayedHeader    = "Idempotency-Replayed"
	maxKey            = 255
)

// inFlight knows the claims whose requests are being carried out.
type inFlight struct {
	mu     sync.Mutex
	claims map[string]bool
}

func newInFlight() *inFlight { return &inFlight{claims: map[string]bool{}} }

func (f *inFlight) begin(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.claims[id] {
		return false
	}
	f.claims[id] = true
	return true
}

func (f *inFlight) end(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.claims, id)
}

// idempotent carries out a request with an idempotency key once. The key is claimed in the transaction that carries it out, and the
// answer is kept beside it, so that a repeat changes nothing whenever the controller or the connection went away in between.
func (s *Server) idempotent(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get(idempotencyHeader)
		who := principal(r.Context())
		if key == "" || r.Method != http.MethodPost || !who.SignedIn() {
			next.ServeHTTP(w, r)
			return
		}
		if len(key) > maxKey {
			s.writeProblem(w, r, invalid("header."+idempotencyHeader, "an idempotency key has at most %d characters", maxKey))
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			s.writeProblem(w, r, problem(http.StatusRequestEntityTooLarge, fmt.Sprintf("The body is larger than %d bytes, or was not sent whole.", maxBody), "Send less."))
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		claim := &store.Claim{ID: store.ClaimID(who.ID, key), RequestHash: requestHash(r, key, body)}
		if !s.busy.begin(claim.ID) {
			s.writeProblem(w, r, problem(http.StatusConflict, "The request with this idempotency key is being carried out.", "Send it again in a moment."))
			return
		}
		defer s.busy.end(claim.ID)
		s.once(w, r, claim, next)
	})
}

// requestHash covers the key, which is kept nowhere: a body may hold a password, which must not be found by hashing guesses.
func requestHash(r *http.Request, key string, body []byte) string {
	h := sha256.New()
	for _, part := range []string{key, r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type")} {
		h.Write(append([]byte(part), 0))
	}
	h.Write(body)
	return hex.EncodeToString(h.Sum(nil))
}

// once answers as before, or carries the request out and keeps the answer.
func (s *Server) once(w http.ResponseWriter, r *http.Request, claim *store.Claim, next http.Handler) {
	req := requestOf(r.Context())
	before, err := s.store.Answered(r.Context(), claim.ID)
	switch {
	case err != nil:
		s.writeProblem(w, r, s.fail(r.Context(), req.guard, err))
		return
	case before != nil && before.RequestHash != claim.RequestHash:
		s.writeProblem(w, r, invalid("header."+idempotencyHeader, "this idempotency key was used for another request"))
		return
	case before != nil && before.Status == 0:
		s.writeProblem(w, r, problem(http.StatusConflict,
			fmt.Sprintf("This request was carried out, on %s, and its answer was lost.", before.ObjectID), "Read that object instead of sending the request again."))
		return
	case before != nil:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set(replayedHeader, "true")
		w.WriteHeader(before.Status)
		_, _ = w.Write(before.Body) // the client is gone: nothing to do
		return
	}
	req.claim = claim
	rec := &recorder{ResponseWriter: w}
	next.ServeHTTP(rec, r)
	if req.audit != nil && req.audit.Done() && rec.status < 300 {
		// The answer is kept also when the client went away: that is whom it is kept for.
		if err := s.store.SetAnswer(context.WithoutCancel(r.Context()), claim.ID, rec.status, rec.body.Bytes()); err != nil {
			s.log.Error("cannot keep the answer of a request", "request", req.id, "err", err)
		}
	}
	rec.send()
}
