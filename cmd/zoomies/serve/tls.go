package serve

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/zoomies-fleet/zoomies/controller/certs"
	"github.com/zoomies-fleet/zoomies/controller/config"
)

// proof is what the listener proves itself with, and the pin of the authority behind it where that is the controller's own.
type proof struct {
	conf *tls.Config // nil for plain HTTP
	pin  string
}

// CertsDir is the folder of a controller's own authority, in that data folder.
func CertsDir(dataDir string) string { return filepath.Join(dataDir, "tls") }

func (o *Options) proof(ctx context.Context) (proof, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	switch o.Config.Serves() {
	case config.FromFiles:
		f, err := certs.OpenFiles(o.Config.TLS.CertFile, o.Config.TLS.KeyFile, nil, o.Logger)
		if err != nil {
			return proof{}, err
		}
		conf.GetCertificate = f.GetCertificate
		return proof{conf: conf}, nil
	case config.OwnCA:
		host, _, _ := net.SplitHostPort(o.Listen) // an address that cannot be split is refused when it is listened on
		a, err := certs.Open(certs.Options{Dir: CertsDir(o.Dir), Names: certs.MachineNames(ctx, host, hostOf(o.Config.PublicURL)), Logger: o.Logger})
		if err != nil {
			return proof{}, err
		}
		conf.GetCertificate = a.GetCertificate
		o.Logger.Info("serving TLS with a certificate of the controller's own authority", "pin", a.Pin(), "folder", CertsDir(o.Dir))
		return proof{conf, a.Pin()}, nil
	case config.NoTLS:
	}
	return proof{}, nil
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// agentURL is where agents reach the controller: its public address, else where it listens; empty when that is the loopback.
func (o *Options) agentURL(at net.Addr, secure bool) string {
	if o.Config.PublicURL != "" {
		return strings.TrimRight(o.Config.PublicURL, "/")
	}
	tcp, ok := at.(*net.TCPAddr)
	if !ok || tcp.IP.IsLoopback() || !secure { // agents refuse plain HTTP to other machines
		return ""
	}
	host, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return ""
	}
	if tcp.IP.IsUnspecified() {
		if host, err = os.Hostname(); err != nil {
			return ""
		}
	}
	return "https://" + net.JoinHostPort(host, port)
}
