package store

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// machineIDFile names the machine, on systems that do.
const machineIDFile = "/etc/machine-id"

// machineApp makes our name of a machine ours alone: its machine-id itself is not to be passed on
// (machine-id(5)), and other programs derive other names from it.
var machineApp, _ = hex.DecodeString("0e6b1f5c9f2b4d0f8a7c5d3e91a4b260") // 128 random bits

// ThisProcess identifies this process as the holder of the database at path, with a new ID. Its
// Machine is derived from /etc/machine-id, because host names are not unique: two machines made of
// one image share theirs. Where there is none it is derived from a random value in <path>.machine,
// beside the lock file and not in the database, so that a copy of the database does not carry it
// along, and from the host name.
func ThisProcess(path string) (Holder, error) { return thisProcess(machineIDFile, path) }

func thisProcess(machineIDFile, path string) (Holder, error) {
	host, err := os.Hostname()
	if err != nil {
		return Holder{}, fmt.Errorf("cannot tell this machine's name: %w", err)
	}
	h := Holder{ID: NewID(idController), Host: host, PID: os.Getpid()}
	raw, err := os.ReadFile(machineIDFile)
	id, derr := hex.DecodeString(strings.TrimSpace(string(raw)))
	if err == nil && derr == nil && len(id) == 16 {
		h.Machine = machineName(id, machineApp)
		return h, nil
	}
	id, err = ownMachineID(path + ".machine")
	if err != nil {
		return Holder{}, fmt.Errorf("cannot tell which machine this is: %w", err)
	}
	h.Machine = machineName(id, slices.Concat(machineApp, []byte(host)))
	return h, nil
}

// machineName derives a name of 128 bits from a secret one, as sd_id128_get_machine_app_specific(3) does.
func machineName(id, app []byte) string {
	mac := hmac.New(sha256.New, id)
	_, _ = mac.Write(app) // never fails
	sum := mac.Sum(nil)[:16]
	sum[6], sum[8] = sum[6]&0x0f|0x40, sum[8]&0x3f|0x80 // a UUID of version 4
	return hex.EncodeToString(sum)
}

// ownMachineID reads the random value in a file, or makes it. When two make it at once, both get the same.
func ownMachineID(name string) ([]byte, error) {
	read := func() ([]byte, error) {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		id, err := hex.DecodeString(strings.TrimSpace(string(raw)))
		if err != nil || len(id) != 16 {
			return nil, fmt.Errorf("%s is damaged; delete it", name)
		}
		return id, nil
	}
	id, err := read()
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	id = make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".new-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString(hex.EncodeToString(id) + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	if err := os.Link(f.Name(), name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return read()
}
