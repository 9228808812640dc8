package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"
)

// Claim is a caller's idempotency key on a request that is being carried out.
type Claim struct {
	ID          string // see ClaimID
	RequestHash string // of the method, path and body, so that a key is not used for something else
}

// ClaimID is the row of a caller's key: two callers may choose the same key.
func ClaimID(callerID, key string) string {
	sum := sha256.Sum256([]byte(callerID + "\x00" + key))
	return hex.EncodeToString(sum[:])
}

// Answer is what became of a request with an idempotency key. Status is 0 when the request was
// carried out and its answer is not known: the controller ended in between.
type Answer struct {
	RequestHash string
	ObjectID    string
	Status      int
	Body        []byte // sealed at rest: the answer to a create may show a token once
}

func (c *Claim) insert(ctx context.Context, t *tx, objectID string, now time.Time) error {
	_, err := exec(ctx, t, "INSERT INTO idempotency (id, request_hash, object_id, status, answer, created_at) VALUES (?, ?, ?, 0, '', ?)",
		c.ID, c.RequestHash, objectID, micros(now))
	return err
}

// SetAnswer keeps the answer of a claimed request.
func (s *Store) SetAnswer(ctx context.Context, claimID string, status int, body []byte) error {
	sealed, err := s.seal(body, sealedAnswer.of(claimID))
	if err == nil {
		err = s.writer.do(ctx, func(ctx context.Context, t *tx) error {
			return execOne(ctx, t, "UPDATE idempotency SET status = ?, answer = ? WHERE id = ?", status, sealed, claimID)
		})
	}
	return errorf(err, "keep the answer of a request")
}

// Answered returns what became of a claimed request; nil when the claim is unknown.
func (s *Store) Answered(ctx context.Context, claimID string) (*Answer, error) {
	scan := func(row scanner) (a Answer, err error) {
		var sealed string
		if err := row.Scan(&a.RequestHash, &a.ObjectID, &a.Status, &sealed); err != nil {
			return a, err
		}
		a.Body, err = s.unseal(sealed, sealedAnswer.of(claimID))
		return a, err
	}
	a, err := one(ctx, s.readers, scan, "SELECT request_hash, object_id, status, answer FROM idempotency WHERE id = ?", claimID)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return &a, errorf(err, "read the answer of a request")
}
