package drive

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/diskfs/go-diskfs/backend"
)

// memory is a disk that go-diskfs writes to and that is nowhere but in memory.
type memory struct {
	bytes []byte
	at    int64
}

var _ backend.WritableFile = (*memory)(nil)

// padded is the image in whole sectors.
func (m *memory) padded() []byte {
	return append(m.bytes, make([]byte, (sector-len(m.bytes)%sector)%sector)...)
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fs.ErrInvalid
	}
	if end := off + int64(len(p)); end > int64(len(m.bytes)) {
		m.bytes = append(m.bytes, make([]byte, end-int64(len(m.bytes)))...)
	}
	return copy(m.bytes[off:], p), nil
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= int64(len(m.bytes)) {
		return 0, io.EOF
	}
	n := copy(p, m.bytes[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (m *memory) Read(p []byte) (int, error) {
	n, err := m.ReadAt(p, m.at)
	m.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

func (m *memory) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += m.at
	case io.SeekEnd:
		offset += int64(len(m.bytes))
	}
	if offset < 0 {
		return 0, fs.ErrInvalid
	}
	m.at = offset
	return offset, nil
}

func (m *memory) Close() error                            { return nil }
func (m *memory) Path() string                            { return "" }
func (m *memory) Writable() (backend.WritableFile, error) { return m, nil }
func (m *memory) Stat() (fs.FileInfo, error)              { return nil, errors.ErrUnsupported }
func (m *memory) Sys() (*os.File, error)                  { return nil, backend.ErrNotSuitable }
