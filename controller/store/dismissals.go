package store

import "context"

// Dismissal hides one problem from one user for as long as it stands.
type Dismissal struct{ Code, Subject string }

// Dismiss hides a problem from a user.
func (s *Store) Dismiss(ctx context.Context, userID string, d Dismissal) error {
	now := s.now()
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		_, err := exec(ctx, t, `INSERT INTO dismissals (user_id, code, subject, created_at) VALUES (?, ?, ?, ?)
			ON CONFLICT (user_id, code, subject) DO NOTHING`, userID, d.Code, d.Subject, micros(now))
		return err
	})
	return errorf(err, "dismiss problem %s", d.Code)
}

// Undismiss shows a problem to a user again. One that was not hidden is no error.
func (s *Store) Undismiss(ctx context.Context, userID string, d Dismissal) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		_, err := exec(ctx, t, "DELETE FROM dismissals WHERE user_id = ? AND code = ? AND subject = ?", userID, d.Code, d.Subject)
		return err
	})
	return errorf(err, "show problem %s again", d.Code)
}

func scanDismissal(row scanner) (d Dismissal, err error) { return d, row.Scan(&d.Code, &d.Subject) }

// DismissedProblems returns what anybody has hidden.
func (s *Store) DismissedProblems(ctx context.Context) ([]Dismissal, error) {
	list, err := all(ctx, s.readers, scanDismissal, "SELECT DISTINCT code, subject FROM dismissals ORDER BY code, subject")
	return list, errorf(err, "list the dismissals")
}

// Dismissals returns what a user has hidden.
func (s *Store) Dismissals(ctx context.Context, userID string) ([]Dismissal, error) {
	list, err := all(ctx, s.readers, scanDismissal, "SELECT code, subject FROM dismissals WHERE user_id = ? ORDER BY code, subject", userID)
	return list, errorf(err, "list the dismissals of %s", userID)
}

// EndDismissals forgets who hid a problem that has gone: when it comes back it is news.
func (s *Store) EndDismissals(ctx context.Context, d Dismissal) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		_, err := exec(ctx, t, "DELETE FROM dismissals WHERE code = ? AND subject = ?", d.Code, d.Subject)
		return err
	})
	return errorf(err, "forget the dismissals of problem %s", d.Code)
}
