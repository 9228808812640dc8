package ignition

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/elf"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"

	base "github.com/coreos/butane/base/v0_5"
)

// Binary is a program, packed once for every config that carries it. It is not changed afterwards.
type Binary struct {
	arch   string // GOARCH
	source string // a data URL of its gzip
	sum    string // SHA-256 of the program itself, in hex
	// standIn is a short data URL for the source while a config is put together: to check megabytes again for every machine would
	// take most of a second each time.
	standIn string
}

// archs are the machines that programs may be for.
var archs = map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}

// PackBinary compresses a Linux program. It takes seconds of processor time, so do it once for each program.
func PackBinary(program []byte) (*Binary, error) {
	if len(program) == 0 {
		return nil, errors.New("cannot pack the agent: there is nothing in its file; build it with make agent")
	}
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return nil, errors.New("cannot pack the agent: its file is no Linux program; give the zoomies-agent that make agent builds")
	}
	arch, ok := archs[f.Machine]
	switch {
	case !ok:
		return nil, fmt.Errorf("cannot pack the agent: it is for %s, and machines are amd64 or arm64", f.Machine)
	case f.Type != elf.ET_EXEC && f.Type != elf.ET_DYN:
		return nil, errors.New("cannot pack the agent: its file is no program that can be started")
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(program); err != nil {
		return nil, fmt.Errorf("cannot pack the agent: %w", err)
	}
	if err := z.Close(); err != nil {
		return nil, fmt.Errorf("cannot pack the agent: %w", err)
	}
	const url = "data:;base64,"
	sum := sha256.Sum256(program)
	b := &Binary{
		arch: arch, sum: hex.EncodeToString(sum[:]), source: url + base64.StdEncoding.EncodeToString(packed.Bytes()),
		standIn: url + base64.StdEncoding.EncodeToString(sum[:]),
	}
	if err := b.validate(); err != nil {
		return nil, err
	}
	return b, nil
}

// validate holds a config with the whole program in it, and nothing else, to Ignition's rules.
func (b *Binary) validate() error {
	var c config
	c.resource(AgentPath, 0o755, b.resource())
	raw, err := c.render()
	if err != nil {
		return err
	}
	if raw, err = b.fill(raw); err != nil {
		return err
	}
	return Validate(raw)
}

// fill puts the program into a config that has its stand-in.
func (b *Binary) fill(raw []byte) ([]byte, error) {
	before, after, ok := bytes.Cut(raw, []byte(b.standIn))
	if !ok || bytes.Contains(after, []byte(b.standIn)) {
		return nil, errors.New("cannot put the agent into the config: it has no place in it, or more than one")
	}
	size := len(before) + len(b.source) + len(after)
	if size > MaxSize {
		return nil, fmt.Errorf("cannot use the config: it has %d bytes, and %d are the most that is sent to a machine; use a smaller agent", size, MaxSize)
	}
	out := make([]byte, 0, size)
	return append(append(append(out, before...), b.source...), after...), nil
}

// Arch is the GOARCH that the program is for.
func (b *Binary) Arch() string { return b.arch }

// SHA256 is the hash of the program itself, in hex.
func (b *Binary) SHA256() string { return b.sum }

// resource is the program's stand-in in a config. Ignition verifies what it has unpacked.
func (b *Binary) resource() base.Resource {
	return base.Resource{Source: &b.standIn, Compression: new("gzip"), Verification: base.Verification{Hash: new("sha256-" + b.sum)}}
}
