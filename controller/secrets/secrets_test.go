package secrets_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/zoomies-fleet/zoomies/controller/secrets"
)

var here = secrets.AAD{Table: "installations", Column: "private_key", Row: "ins_1"}

// fresh makes a key file and loads it.
func fresh(t *testing.T) (*secrets.Keyring, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "deep", "keys")
	k, err := secrets.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	return k, path
}

func seal(t *testing.T, k *secrets.Keyring, plain string) string {
	t.Helper()
	sealed, err := k.Seal([]byte(plain), here)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestTheKeyFileIsMadeOnceAndForItsOwner(t *testing.T) {
	t.Parallel()
	k, path := fresh(t)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	again, err := secrets.LoadOrCreate(path)
	if err != nil || again.Newest() != k.Newest() {
		t.Fatalf("another key at the second start (%v)", err)
	}
	if got, err := again.Open(seal(t, k, "x"), here); err != nil || string(got) != "x" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestManyStartsAtOnceAgreeOnOneKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	var mu sync.Mutex
	ids := make(map[string]bool)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			k, err := secrets.LoadOrCreate(path)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			ids[k.Newest()] = true
		})
	}
	wg.Wait()
	if len(ids) != 1 {
		t.Errorf("%d keys were made", len(ids))
	}
}

func TestRotationsAtOnceLoseNoKey(t *testing.T) {
	t.Parallel()
	_, path := fresh(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := secrets.Rotate(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if k, err := secrets.LoadOrCreate(path); err != nil || len(k.KeyIDs()) != 9 {
		t.Errorf("%v, %v, want 9 keys", k, err)
	}
}

func TestAKeyFileThatOthersCanReadIsRefusedWithTheFix(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o644, 0o610} {
		_, path := fresh(t)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := secrets.LoadOrCreate(path)
		if !errors.Is(err, secrets.ErrKeyFile) || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("mode %o: %v", mode, err)
		}
		if _, err := secrets.Rotate(path); !errors.Is(err, secrets.ErrKeyFile) {
			t.Errorf("mode %o: rotated: %v", mode, err)
		}
	}
}

// A damaged key file must neither be used nor replaced: a fresh key would make what is sealed
// unreadable for ever.
func TestADamagedKeyFileIsRefusedAndLeftAlone(t *testing.T) {
	t.Parallel()
	_, path := fresh(t)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var secret struct{ Keys []struct{ Key string } }
	if err := json.Unmarshal(good, &secret); err != nil {
		t.Fatal(err)
	}
	damage := map[string][]byte{
		"empty":      {},
		"rubbish":    []byte("hello"),
		"trailing":   append(bytes.Clone(good), '{'),
		"no keys":    []byte(`{"version":1,"keys":[]}`),
		"newer":      bytes.Replace(good, []byte(`"version": 1`), []byte(`"version": 2`), 1),
		"unknown":    bytes.Replace(good, []byte(`"version"`), []byte(`"x": 1, "version"`), 1),
		"short key":  bytes.Replace(good, []byte(secret.Keys[0].Key), []byte("AAAA"), 1),
		"other key":  bytes.Replace(good, []byte(secret.Keys[0].Key), []byte(strings.Repeat("A", 43)+"="), 1),
		"not base64": bytes.Replace(good, []byte(secret.Keys[0].Key), []byte(strings.Repeat("*", 44)), 1),
	}
	for i := 1; i < len(good)-2; i += 7 {
		damage[fmt.Sprint("cut at ", i)] = good[:i]
	}
	for name, raw := range damage {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := secrets.LoadOrCreate(path)
		if !errors.Is(err, secrets.ErrKeyFile) {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), secret.Keys[0].Key[:8]) {
			t.Errorf("%s: the error shows the key", name)
		}
		if left, _ := os.ReadFile(path); !bytes.Equal(left, raw) {
			t.Errorf("%s: the file was changed", name)
		}
	}
	if _, err := secrets.LoadOrCreate(t.TempDir()); !errors.Is(err, secrets.ErrKeyFile) {
		t.Errorf("a folder: %v", err)
	}
}

func TestNewestSealsAllOpenAndRetiredDoNot(t *testing.T) {
	t.Parallel()
	old, path := fresh(t)
	before := seal(t, old, "before")
	rotated, err := secrets.Rotate(path)
	if err != nil {
		t.Fatal(err)
	}
	if rotated.Newest() == old.Newest() || len(rotated.KeyIDs()) != 2 || rotated.KeyIDs()[0] != old.Newest() {
		t.Fatalf("keys %v after %v", rotated.KeyIDs(), old.KeyIDs())
	}
	after := seal(t, rotated, "after")
	if id, ok := secrets.KeyIDOf(after); !ok || id != rotated.Newest() {
		t.Errorf("sealed with %q", id)
	}
	loaded, err := secrets.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	for sealed, want := range map[string]string{before: "before", after: "after"} {
		if got, err := loaded.Open(sealed, here); err != nil || string(got) != want {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if _, err := old.Open(after, here); !errors.Is(err, secrets.ErrUnknownKey) {
		t.Errorf("the old keyring: %v", err)
	}
	retired, err := secrets.Retire(path)
	if err != nil || len(retired.KeyIDs()) != 1 || retired.Newest() != rotated.Newest() {
		t.Fatalf("%v, %v", retired, err)
	}
	if _, err := retired.Open(before, here); !errors.Is(err, secrets.ErrUnknownKey) {
		t.Errorf("a retired key's value: %v", err)
	}
	if _, err := retired.Open(after, here); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	if err != nil || len(files) != 0 {
		t.Errorf("left behind: %v", files)
	}
	for name, fn := range map[string]func(string) (*secrets.Keyring, error){"rotate": secrets.Rotate, "retire": secrets.Retire} {
		missing := filepath.Join(t.TempDir(), "keys")
		if _, err := fn(missing); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s without a file: %v", name, err)
		}
		if _, err := os.Stat(missing); err == nil {
			t.Errorf("%s made a file", name)
		}
	}
}

func TestAValueOpensWhereItBelongsAndNowhereElse(t *testing.T) {
	t.Parallel()
	k, _ := fresh(t)
	sealed := seal(t, k, "secret")
	for _, aad := range []secrets.AAD{
		{Table: "installations", Column: "private_key", Row: "ins_2"},
		{Table: "installations", Column: "webhook_secret", Row: "ins_1"},
		{Table: "tasks", Column: "private_key", Row: "ins_1"},
		{Table: "installationsprivate_key", Row: "ins_1"},
		{Table: "installations", Column: "private_keyins_1"},
		{},
	} {
		if got, err := k.Open(sealed, aad); !errors.Is(err, secrets.ErrSealed) || got != nil {
			t.Errorf("opened as %+v: %q, %v", aad, got, err)
		}
	}
	if a, b := seal(t, k, "secret"), seal(t, k, "secret"); a == b {
		t.Error("the same nonce twice")
	}
	if strings.Contains(sealed, "secret") {
		t.Error("sealed in name only")
	}
}

func TestAnyChangeToASealedValueIsNoticed(t *testing.T) {
	t.Parallel()
	k, _ := fresh(t)
	rapid.Check(t, func(t *rapid.T) {
		plain := rapid.SliceOf(rapid.Byte()).Draw(t, "plain")
		sealed, err := k.Seal(plain, here)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := k.Open(sealed, here); err != nil || !bytes.Equal(got, plain) {
			t.Fatalf("got %x, %v", got, err)
		}
		changed := []byte(sealed)
		changed[rapid.IntRange(0, len(changed)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 127).Draw(t, "flip"))
		if got, err := k.Open(string(changed), here); err == nil {
			t.Fatalf("%q opened as %x", changed, got)
		}
		broken := sealed[:len(sealed)-3] + "\n" + sealed[len(sealed)-3:]
		if got, err := k.Open(broken, here); err == nil {
			t.Fatalf("%q opened as %x", broken, got)
		}
		cut := sealed[:rapid.IntRange(0, len(sealed)-1).Draw(t, "cut")]
		if got, err := k.Open(cut, here); err == nil {
			t.Fatalf("%q opened as %x", cut, got)
		}
	})
}

func FuzzOpen(f *testing.F) {
	k, err := secrets.LoadOrCreate(filepath.Join(f.TempDir(), "keys"))
	if err != nil {
		f.Fatal(err)
	}
	sealed, err := k.Seal([]byte("secret"), here)
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{"", "z1", "z1.", "z1..", "z1.00000000.AAAA", sealed, sealed[:30], secrets.SealedPrefix(k.Newest())} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := k.Open(s, here)
		if err == nil && s != sealed {
			t.Errorf("%q opened as %q", s, got)
		}
		if err != nil && !errors.Is(err, secrets.ErrSealed) && !errors.Is(err, secrets.ErrUnknownKey) {
			t.Errorf("%q: %v", s, err)
		}
	})
}

func TestNothingPrintsASecret(t *testing.T) {
	t.Parallel()
	v := secrets.Of("hunter2")
	k, _ := fresh(t)
	hidden := struct{ v secrets.Value }{v} // fmt cannot call the methods of a field it may not see
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "v", v, "k", k.String(), "in", struct{ V secrets.Value }{v})
	raw, err := json.Marshal(struct{ V secrets.Value }{v})
	if err != nil {
		t.Fatal(err)
	}
	text := log.String() + string(raw) + fmt.Sprintf("%v %+v %#v %s %q %x %d %v %#v", v, v, v, v, v, v, v, struct{ V secrets.Value }{v}, k) +
		fmt.Sprintf("%v %+v %#v %d", hidden, hidden, hidden, hidden)
	if strings.Contains(text, "hunter2") || strings.Contains(text, fmt.Sprintf("%x", "hunter2")) || strings.Contains(text, "104 117 110") {
		t.Errorf("printed: %s", text)
	}
	if string(v.Reveal()) != "hunter2" || v.Empty() || !(secrets.Value{}).Empty() {
		t.Error("Reveal does not reveal")
	}
	if !v.Equal(secrets.Of("hunter2")) || v.Equal(secrets.Of("hunter3")) || v.Equal(secrets.Value{}) || !(secrets.Value{}).Equal(secrets.Of("")) {
		t.Error("Equal does not compare")
	}
}
