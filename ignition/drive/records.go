package drive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// Where things are in an image and in a directory's records, from ECMA-119, and in the system use fields, from the Rock Ridge
// Interchange Protocol.
const (
	descriptorAt = 16 * sector // the primary volume descriptor
	labelAt      = descriptorAt + 40
	rootAt       = descriptorAt + 156
	rootSize     = 34
	minRecord    = 34
	maxDepth     = 8
)

var errAbsent = errors.New("there is no such file")

// extent is where a file or directory lies.
type extent struct{ at, size int }

// record is one line of a directory. bytes is the part of the image that it takes.
type record struct {
	extent
	name  string // empty for the directory itself and its parent
	dir   bool
	bytes []byte
}

// rootOf checks that image is an ISO 9660 volume and returns its root directory.
func rootOf(image []byte) (extent, error) {
	if len(image) < descriptorAt+2*sector || image[descriptorAt] != 1 || string(image[descriptorAt+1:descriptorAt+6]) != "CD001" {
		return extent{}, errors.New("cannot read the drive: it is no ISO 9660 image")
	}
	if size := binary.LittleEndian.Uint16(image[descriptorAt+128:]); size != sector {
		return extent{}, fmt.Errorf("cannot read the drive: it has blocks of %d bytes instead of %d", size, sector)
	}
	r, err := parse(image, image[rootAt:rootAt+rootSize])
	if err == nil && !r.dir {
		err = errors.New("cannot read the drive: its root is no directory")
	}
	return r.extent, err
}

// parse reads one record, and checks that what it points to is in the image.
func parse(image, b []byte) (record, error) {
	nameEnd := 33 + int(b[32])
	if nameEnd > len(b) || b[32] == 0 {
		return record{}, errors.New("cannot read the drive: a directory's record is too short for its name")
	}
	r := record{dir: b[25]&2 != 0, bytes: b}
	if b[25]&0x80 != 0 || b[26] != 0 || b[27] != 0 {
		return record{}, errors.New("cannot read the drive: a file on it is in more than one piece")
	}
	at, size := uint64(binary.LittleEndian.Uint32(b[2:]))*sector, uint64(binary.LittleEndian.Uint32(b[10:]))
	if size > uint64(len(image)) || at > uint64(len(image))-size {
		return record{}, errors.New("cannot read the drive: it is cut off")
	}
	r.at, r.size = int(at), int(size)
	if plain := b[33:nameEnd]; len(plain) != 1 || plain[0] > 1 {
		r.name = longName(r.fields())
		if r.name == "" {
			name, _, _ := strings.Cut(string(plain), ";")
			r.name = strings.ToLower(strings.TrimSuffix(name, "."))
		}
	}
	return r, nil
}

// fields are the record's system use fields, each with its head of four bytes.
func (r record) fields() [][]byte {
	at := 33 + int(r.bytes[32])
	at += at % 2 // records are filled up to even lengths
	var out [][]byte
	for at+4 <= len(r.bytes) {
		size := int(r.bytes[at+2])
		if size < 4 || at+size > len(r.bytes) {
			break
		}
		out = append(out, r.bytes[at:at+size])
		at += size
	}
	return out
}

func longName(fields [][]byte) string {
	var name strings.Builder
	for _, f := range fields {
		if string(f[:2]) == "NM" && len(f) > 5 {
			name.Write(f[5:])
		}
	}
	return name.String()
}

// list reads a directory. No record crosses the end of a block; the rest of one is empty.
func list(image []byte, dir extent) ([]record, error) {
	var out []record
	whole := image[dir.at : dir.at+dir.size]
	for at := 0; at < len(whole); {
		size := int(whole[at])
		if size == 0 {
			at += sector - at%sector
			continue
		}
		if size < minRecord || at+size > len(whole) {
			return nil, errors.New("cannot read the drive: a directory's record has no sensible length")
		}
		r, err := parse(image, whole[at:at+size])
		if err != nil {
			return nil, err
		}
		out = append(out, r)
		at += size
	}
	return out, nil
}

// lookup returns the part of the image that a file takes.
func lookup(image []byte, dir extent, path []string) ([]byte, error) {
	records, err := list(image, dir)
	if err != nil {
		return nil, err
	}
	for _, r := range records {
		if r.name != path[0] || r.dir != (len(path) > 1) {
			continue
		}
		if r.dir {
			return lookup(image, r.extent, path[1:])
		}
		return image[r.at : r.at+r.size], nil
	}
	return nil, fmt.Errorf("cannot find %s on the drive: %w", path[0], errAbsent)
}

// A moment for everything on a drive: the same config gives the same drive, whenever and by whomever it was made.
var (
	shortMoment = []byte{100, 1, 1, 0, 0, 0, 0} // 2000-01-01
	longMoment  = append([]byte("2000010100000000"), 0)
	noMoment    = append(bytes.Repeat([]byte("0"), 16), 0)
)

// forget overwrites what tells when and by whom a drive of our own was made.
func forget(image []byte, root extent, depth int) error {
	if depth == 0 {
		copy(image[rootAt+18:], shortMoment)
		for i, m := range [][]byte{longMoment, longMoment, noMoment, noMoment} { // made, changed, until, from
			copy(image[descriptorAt+813+17*i:], m)
		}
	}
	if depth > maxDepth {
		return errors.New("cannot write a config drive: its folders are too deep")
	}
	records, err := list(image, root)
	if err != nil {
		return err
	}
	for _, r := range records {
		copy(r.bytes[18:25], shortMoment)
		for _, f := range r.fields() {
			switch string(f[:2]) {
			case "TF":
				for at := 5; at+7 <= len(f); at += 7 {
					copy(f[at:], shortMoment)
				}
			case "PX": // both byte orders of: mode, links, owner, group
				if len(f) < 36 {
					return errors.New("cannot write a config drive: a file on it has no owner")
				}
				mode, links := uint32(0o100444), uint32(1)
				if r.dir {
					mode, links = 0o040555, 2
				}
				for i, v := range []uint32{mode, links, 0, 0} {
					binary.LittleEndian.PutUint32(f[4+8*i:], v)
					binary.BigEndian.PutUint32(f[8+8*i:], v)
				}
			}
		}
		if r.dir && r.name != "" {
			if err := forget(image, r.extent, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
