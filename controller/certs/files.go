package certs

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// glance is how often a handshake looks whether the files have changed.
const glance = time.Second

// Files is a certificate that somebody else keeps in two PEM files. It is read again when they change. Safe for concurrent use.
type Files struct {
	certFile, keyFile string
	now               func() time.Time
	log               *slog.Logger

	mu     sync.Mutex
	pair   *tls.Certificate
	seen   [2]os.FileInfo
	looked time.Time
}

// OpenFiles reads the files. now and log may be nil.
func OpenFiles(certFile, keyFile string, now func() time.Time, log *slog.Logger) (*Files, error) {
	f := &Files{certFile: certFile, keyFile: keyFile, now: now, log: log}
	if f.now == nil {
		f.now = time.Now
	}
	if f.log == nil {
		f.log = slog.Default()
	}
	seen, err := f.stat()
	if err == nil {
		err = f.read(seen)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot serve TLS: %w; correct tls.cert_file and tls.key_file", err)
	}
	f.looked = f.now()
	return f, nil
}

func (f *Files) stat() (seen [2]os.FileInfo, err error) {
	for i, name := range []string{f.certFile, f.keyFile} {
		if seen[i], err = os.Stat(name); err != nil {
			return seen, err
		}
	}
	return seen, nil
}

// read takes the pair over. The files were looked at before: what changes meanwhile is seen the next time.
func (f *Files) read(seen [2]os.FileInfo) error {
	pair, err := tls.LoadX509KeyPair(f.certFile, f.keyFile)
	if err != nil {
		return err
	}
	f.pair, f.seen = &pair, seen
	return nil
}

func (f *Files) changed(seen [2]os.FileInfo) bool {
	for i := range seen {
		if !os.SameFile(seen[i], f.seen[i]) || !seen[i].ModTime().Equal(f.seen[i].ModTime()) || seen[i].Size() != f.seen[i].Size() {
			return true
		}
	}
	return false
}

// GetCertificate is tls.Config's. While the files cannot be used, as when only one of them has been replaced, the pair before goes on.
func (f *Files) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if now.Sub(f.looked) < glance {
		return f.pair, nil
	}
	f.looked = now
	seen, err := f.stat()
	if err == nil && f.changed(seen) {
		if err = f.read(seen); err == nil {
			f.log.Info("the listener has a new certificate", "file", f.certFile, "ends", f.pair.Leaf.NotAfter)
		}
	}
	if err != nil {
		f.log.Warn("the certificate cannot be read anew; the one before goes on", "err", err, "ends", f.pair.Leaf.NotAfter)
	}
	return f.pair, nil
}
