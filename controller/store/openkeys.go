package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

// OpenKeys loads the keys of the database at path, to open it as h with them. It makes a key file only for a database that h may
// open and that holds no secret yet: ErrLeaseHeld while the controller of another machine holds it, unless takeover is set, and an
// error when there are secrets and no key file. Nothing is changed then. The file lock must be held.
func OpenKeys(ctx context.Context, path, keyFile string, h Holder, takeover bool) (*secrets.Keyring, error) {
	if !takeover {
		if err := CheckLease(ctx, path, h, time.Now()); err != nil {
			return nil, err
		}
	}
	if _, err := os.Stat(keyFile); errors.Is(err, fs.ErrNotExist) {
		sealed, err := holdsSecrets(ctx, path)
		if err != nil {
			return nil, errorf(err, "read the database %s", path)
		}
		if sealed {
			return nil, fmt.Errorf("cannot open what is sealed in %s: its key file %s is not there; restore it from a backup, or set secrets.key_file to where it is", path, keyFile)
		}
	}
	return secrets.LoadOrCreate(keyFile)
}

// holdsSecrets says whether there is a database at path with something sealed in it. It understands every schema there was.
func holdsSecrets(ctx context.Context, path string) (sealed bool, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return false, err
	}
	if _, err := os.Stat(abs); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	db, err := sql.Open("sqlite", dsn(abs, "query_only(1)")+"&mode=ro")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for _, c := range sealedColumns {
		known, err := exists(ctx, db, "SELECT name FROM pragma_table_info(?) WHERE name = ?", c.table, c.column)
		if err != nil {
			return false, err
		}
		if !known {
			continue
		}
		if sealed, err := exists(ctx, db, fmt.Sprintf("SELECT %s FROM %s WHERE %s <> '' LIMIT 1", c.column, c.table, c.column)); err != nil || sealed {
			return sealed, err
		}
	}
	return false, nil
}
