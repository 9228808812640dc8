package proxmox

import (
	"bytes"
	"crypto/md5"  //nolint:gosec // one of the algorithms that Proxmox offers
	"crypto/sha1" //nolint:gosec // one of the algorithms that Proxmox offers
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"regexp"
)

// upload is a file that was received, as it lies in /var/tmp of the node that received it.
type upload struct {
	spool string
	name  string
	data  []byte
	size  int64
}

var badLetters = regexp.MustCompile(`[^a-zA-Z0-9_.-]`)

func (u *upload) sum(algorithm string) string {
	hashes := map[string]func() hash.Hash{
		"md5": md5.New, "sha1": sha1.New, "sha224": sha256.New224, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
	}
	if hashes[algorithm] == nil {
		return ""
	}
	h := hashes[algorithm]()
	_, _ = h.Write(u.data)
	return hex.EncodeToString(h.Sum(nil))
}

// boundaryOf is the boundary of a multipart upload; empty when the request is none.
func boundaryOf(req *http.Request) string {
	if req.Method != http.MethodPost {
		return ""
	}
	kind, params, err := mime.ParseMediaType(req.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return ""
	}
	return params["boundary"]
}

// upload receives a file: who may not is turned away before it, with no body, and what is wrong with the rest is found after it. A
// refused file is forgotten in /var/tmp.
func (c *call) upload(req *http.Request, boundary string) (any, error) {
	if c.method.name != "POST /nodes/{node}/storage/{storage}/upload" {
		return nil, bare(501, "file upload not supported here", "")
	}
	if err := c.access.evaluate(c.method.Perm.Check, c.who, c.params); err != nil {
		if f, ok := errors.AsType[*fail](err); ok {
			f.bare = true
		}
		return nil, err
	}
	sent, err := c.receive(req, boundary)
	if err != nil {
		return nil, err
	}
	all := map[string]value{}
	for k, v := range c.params {
		all[k] = value{text: v}
	}
	for k, v := range sent {
		all[k], c.params[k] = value{text: v}, v
	}
	data, err := c.run(all)
	if c.file != nil {
		n := c.order[0]
		n.leftovers = append(n.leftovers, c.file.spool)
	}
	return data, err
}

// receive reads the fields that come before the file, and the file.
func (c *call) receive(req *http.Request, boundary string) (map[string]string, error) {
	entry := c.order[0]
	spool := fmt.Sprintf("/var/tmp/pveupload-%016x%016x", c.rng.Uint64(), c.rng.Uint64())
	free := entry.spoolFree
	body := io.Reader(req.Body)
	if c.hit != nil && c.hit.fault.Effect == CutUpload {
		body = io.LimitReader(body, c.hit.fault.Bytes)
	}
	c.mu.Unlock()
	fields, file, err := readParts(multipart.NewReader(body, boundary), free)
	c.mu.Lock()
	switch {
	case errors.Is(err, errSpoolFull):
		entry.leftovers = append(entry.leftovers, spool)
		entry.spoolFree = 0
		return nil, bare(500, "No space left on device", "No space left on device")
	case err != nil:
		return nil, errCut
	}
	if file != nil {
		file.spool, c.file = spool, file
		fields["filename"] = file.name
		fields["tmpfilename"] = spool
		entry.spoolFree -= file.size
	}
	return fields, nil
}

var errSpoolFull = errors.New("no space left for uploads")

// maxField is how long a field of an upload may be.
const maxField = 16 << 10

// readParts reads an upload: what comes after the file is not looked at.
func readParts(r *multipart.Reader, free int64) (map[string]string, *upload, error) {
	fields := map[string]string{}
	for {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return fields, nil, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("cannot read the upload: %w", err)
		}
		if p.FormName() != "filename" {
			b, err := io.ReadAll(io.LimitReader(p, maxField))
			if err != nil {
				return nil, nil, fmt.Errorf("cannot read the upload: %w", err)
			}
			fields[p.FormName()] = string(b)
			continue
		}
		var data bytes.Buffer
		n, err := io.Copy(&data, io.LimitReader(p, free+1))
		if err != nil {
			return nil, nil, fmt.Errorf("cannot read the upload: %w", err)
		}
		if n > free {
			return nil, nil, errSpoolFull
		}
		file := &upload{name: fileName(p), data: data.Bytes(), size: n}
		for { // the rest, so that the client is heard out
			rest, err := r.NextRawPart()
			if errors.Is(err, io.EOF) {
				return fields, file, nil
			}
			if err != nil {
				return nil, nil, fmt.Errorf("cannot read the upload: %w", err)
			}
			if _, err := io.Copy(io.Discard, rest); err != nil {
				return nil, nil, fmt.Errorf("cannot read the upload: %w", err)
			}
		}
	}
}

// fileName is the file's name as it was sent: the library's own would drop what looks like a folder.
func fileName(p *multipart.Part) string {
	_, params, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
	if err != nil {
		return ""
	}
	return params["filename"]
}
