package secrets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gofrs/flock"
)

// ErrKeyFile says that a key file cannot be used as it is: damaged, or readable by others.
var ErrKeyFile = errors.New("key file cannot be used")

// keyFile is the file's content: JSON, so that a file cut short does not parse.
type keyFile struct {
	Version int       `json:"version"`
	Keys    []fileKey `json:"keys"` // oldest first
}

type fileKey struct {
	ID      string    `json:"id"` // derived from Key: a damaged key does not fit it
	Created time.Time `json:"created"`
	Key     []byte    `json:"key"`
}

const (
	keyFileVersion = 1
	keyFileMode    = fs.FileMode(0o600)
	maxKeyFile     = 1 << 20 // bytes
)

// LoadOrCreate reads the key file at path, and makes one with a fresh key (mode 0600, its folder
// 0700) when there is none. It refuses a file that group or others may read, and a damaged one.
func LoadOrCreate(path string) (*Keyring, error) {
	k, err := load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the key file's folder: %w", err)
	}
	return change(path, func(k *Keyring) (*Keyring, error) {
		if k != nil {
			return k, nil // another process was first
		}
		first, err := newKey(time.Now())
		if err != nil {
			return nil, err
		}
		return &Keyring{path: path, keys: []key{first}}, nil
	})
}

// Rotate adds a fresh key to the file at path, which from then on seals, and returns the new
// keyring. Old keys stay until Retire. The file is replaced atomically. No other process may go
// on with the keyring it loaded before, or what it seals is lost with Retire: take the
// database's lock first.
func Rotate(path string) (*Keyring, error) {
	return change(path, func(k *Keyring) (*Keyring, error) {
		if k == nil {
			return nil, fmt.Errorf("cannot rotate keys: %s: %w", path, fs.ErrNotExist)
		}
		fresh, err := newKey(time.Now())
		if err != nil {
			return nil, err
		}
		return &Keyring{path: path, keys: append(slices.Clip(k.keys), fresh)}, nil
	})
}

// Retire drops every key of the file at path but the newest. Call it only after a complete
// re-encryption: what an old key sealed does not open any more.
func Retire(path string) (*Keyring, error) {
	return change(path, func(k *Keyring) (*Keyring, error) {
		if k == nil {
			return nil, fmt.Errorf("cannot retire keys: %s: %w", path, fs.ErrNotExist)
		}
		return &Keyring{path: path, keys: k.keys[len(k.keys)-1:]}, nil
	})
}

// change runs one read-modify-write of the key file under a lock, so that two of them at once
// cannot drop each other's key. edit gets nil when there is no file.
func change(path string, edit func(*Keyring) (*Keyring, error)) (*Keyring, error) {
	lock := flock.New(path+".lock", flock.SetPermissions(keyFileMode))
	if err := lock.Lock(); err != nil {
		return nil, fmt.Errorf("cannot lock the key file %s: %w", path, err)
	}
	defer func() { _ = lock.Close() }()

	old, err := load(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		old = nil
	}
	k, err := edit(old)
	if err != nil {
		return nil, err
	}
	if k != old {
		if err := store(path, k); err != nil {
			return nil, fmt.Errorf("cannot write the key file %s: %w", path, err)
		}
	}
	return k, nil
}

// load reads and checks the file. A missing file is fs.ErrNotExist.
func load(path string) (*Keyring, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the key file: %w", err)
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot read the key file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file", ErrKeyFile, path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%w: others than its owner have access to %s (mode %04o); run: chmod 600 %s",
			ErrKeyFile, path, info.Mode().Perm(), path)
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, fmt.Errorf("cannot read the key file: %w", err)
	}
	keys, err := parse(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %s is damaged (%w); restore it from a backup: without it nothing sealed opens", ErrKeyFile, path, err)
	}
	return &Keyring{path: path, keys: keys}, nil
}

// parse decodes a key file's content. No error of it repeats any of the content.
func parse(raw []byte) ([]key, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var file keyFile
	if err := dec.Decode(&file); err != nil {
		return nil, errors.New("not a key file's JSON")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the keys")
	}
	if file.Version != keyFileVersion {
		return nil, fmt.Errorf("version %d is not known", file.Version)
	}
	if len(file.Keys) == 0 {
		return nil, errors.New("no keys")
	}
	keys := make([]key, 0, len(file.Keys))
	seen := make(map[string]bool, len(file.Keys))
	for i, fk := range file.Keys {
		k, err := keyOf(fk.Key, fk.Created)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		if k.id != fk.ID {
			return nil, fmt.Errorf("key %d does not fit its ID", i+1)
		}
		if seen[k.id] {
			return nil, fmt.Errorf("key %d is there twice", i+1)
		}
		seen[k.id] = true
		keys = append(keys, k)
	}
	return keys, nil
}

// store replaces the file at path: a temporary file beside it, synced, renamed over it, and the
// folder synced. A crash leaves either the old file or the new one.
func store(path string, k *Keyring) (err error) {
	file := keyFile{Version: keyFileVersion}
	for _, key := range k.keys {
		file.Keys = append(file.Keys, fileKey{ID: key.id, Created: key.created.UTC().Truncate(time.Second), Key: key.raw})
	}
	raw, err := json.MarshalIndent(file, "", "  ")
	if err != nil {
		return err
	}
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tmp.Close()
			_ = os.Remove(tmp.Name())
		}
	}()
	if _, err = tmp.Write(append(raw, '\n')); err != nil {
		return err
	}
	if err = tmp.Sync(); err != nil {
		return err
	}
	if err = tmp.Close(); err != nil {
		return err
	}
	if err = os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	return syncFolder(dir)
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}
