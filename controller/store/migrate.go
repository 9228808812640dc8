package store

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

func migrations(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	return goose.NewProvider(goose.DialectSQLite3, db, files,
		goose.WithDisableGlobalRegistry(true), goose.WithSlog(slog.New(slog.DiscardHandler)))
}

// migrate brings the schema up to this release's. There is no way down: going back to an older
// release takes a copy of the database from before.
func (s *Store) migrate(ctx context.Context) error {
	p, err := migrations(s.writeDB)
	if err != nil {
		return fmt.Errorf("cannot read the migrations: %w", err)
	}
	// The provider is not closed: that would close the database, which is ours.
	has, knows, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("cannot read the schema's version: %w", err)
	}
	if has > knows {
		return fmt.Errorf("%w: its schema is version %d and this one knows %d; start the newer release, or restore a copy from before the upgrade",
			ErrNewerSchema, has, knows)
	}
	done, err := p.Up(ctx)
	if err != nil {
		return fmt.Errorf("cannot migrate the schema: %w", err)
	}
	for _, m := range done {
		s.log.InfoContext(ctx, "database migrated", "version", m.Source.Version, "took", m.Duration)
	}
	return nil
}
