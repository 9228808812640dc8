package layout

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/coreos/ignition/v2/config/v3_4/types"
	"github.com/vincent-petithory/dataurl"
)

// MaxFile is the largest file in bytes that is unpacked: more is a mistake, or meant to fill a disk.
const MaxFile = 512 << 20

// decode is what a file will hold, verified. A resource without a source is empty.
func decode(r types.Resource) ([]byte, error) {
	var content []byte
	if r.Source != nil && *r.Source != "" {
		if !strings.HasPrefix(*r.Source, "data:") {
			return nil, errors.New("its content is to be fetched, and only data: URLs are supported")
		}
		u, err := dataurl.DecodeString(*r.Source)
		if err != nil {
			return nil, errors.New("its data: URL cannot be read")
		}
		content = u.Data
	}
	content, err := unpack(content, r.Compression)
	if err != nil {
		return nil, err
	}
	return content, verify(content, r.Verification.Hash)
}

func unpack(packed []byte, how *string) ([]byte, error) {
	switch {
	case how == nil, *how == "":
		return packed, nil
	case *how != "gzip":
		return nil, fmt.Errorf("its content is compressed with %q, and only gzip is supported", *how)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("its content cannot be unpacked: %w", err)
	}
	out, err := io.ReadAll(io.LimitReader(z, MaxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("its content cannot be unpacked: %w", err)
	case len(out) > MaxFile:
		return nil, fmt.Errorf("its content has more than %d bytes", MaxFile)
	}
	return out, nil
}

func verify(content []byte, want *string) error {
	if want == nil {
		return nil
	}
	kind, digits, _ := strings.Cut(*want, "-")
	var got []byte
	switch kind {
	case "sha256":
		sum := sha256.Sum256(content)
		got = sum[:]
	case "sha512":
		sum := sha512.Sum512(content)
		got = sum[:]
	default:
		return fmt.Errorf("its hash is of the kind %q, and only sha256 and sha512 are supported", kind)
	}
	if sum, err := hex.DecodeString(digits); err != nil || subtle.ConstantTimeCompare(sum, got) != 1 {
		return fmt.Errorf("its content is not what was meant: the %s hash is %x instead of %s", kind, got, digits)
	}
	return nil
}
