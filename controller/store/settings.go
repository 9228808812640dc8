package store

import "context"

// Settings returns the database layer of the configuration, by key.
func (s *Store) Settings(ctx context.Context) (map[string]string, error) {
	scan := func(row scanner) (kv [2]string, err error) { return kv, row.Scan(&kv[0], &kv[1]) }
	list, err := all(ctx, s.readers, scan, "SELECT key, value FROM settings")
	if err != nil {
		return nil, errorf(err, "read the settings")
	}
	settings := make(map[string]string, len(list))
	for _, kv := range list {
		settings[kv[0]] = kv[1]
	}
	return settings, nil
}

// SetSetting writes one setting.
func (s *Store) SetSetting(ctx context.Context, key, value string) error {
	now := s.now()
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		_, err := exec(ctx, t, `INSERT INTO settings (key, value, updated_at) VALUES (?, ?, ?)
			ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`, key, value, micros(now))
		return err
	})
	return errorf(err, "write setting %q", key)
}

// DeleteSetting removes one setting, so that its other layers show. One that is not there is no error.
func (s *Store) DeleteSetting(ctx context.Context, key string) error {
	err := s.writer.do(ctx, func(ctx context.Context, t *tx) error {
		_, err := exec(ctx, t, "DELETE FROM settings WHERE key = ?", key)
		return err
	})
	return errorf(err, "delete setting %q", key)
}
