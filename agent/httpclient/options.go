package httpclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

// Options say where the controller is and how to reach it.
type Options struct {
	// Address is the controller's base URL, https://host[:port][/prefix]. Plain http is
	// accepted for loopback, and elsewhere only with AllowHTTP.
	Address string
	// CA holds PEM certificates that replace the system's roots, to pin a private authority.
	CA []byte
	// Pin trusts one authority by the hash of its public key, sha256:<hex>, which the controller sends along with its own certificate.
	// It replaces the system's roots; give it or CA.
	Pin string
	// AllowHTTP accepts http:// to any address: for a connection that a tunnel encrypts.
	AllowHTTP bool
	// Dial replaces the network dialer: a userspace tunnel's.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Proxy chooses a proxy; nil is none, whatever the environment says.
	Proxy func(*http.Request) (*url.URL, error)
}

func (o Options) baseURL() (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(o.Address, "/"))
	if err != nil {
		return nil, errors.New("cannot use the controller's address: it is not a URL such as https://zoomies.example.org")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "":
		return nil, fmt.Errorf("cannot use the controller's address %q: it must be a URL such as https://zoomies.example.org", u.Redacted())
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return nil, fmt.Errorf("cannot use the controller's address %q: leave out user, query and fragment", u.Redacted())
	case u.Scheme == "http" && !o.AllowHTTP && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("cannot use the controller's address %q: over plain HTTP anybody on the way can read the host's token; use https", u)
	}
	return u, nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}

func (o Options) transport(base *url.URL) (*http.Transport, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case (o.Pin != "" || len(o.CA) > 0) && base.Scheme != "https":
		return nil, fmt.Errorf("cannot trust an authority over plain HTTP: write https://%s", base.Host)
	case o.Pin != "" && len(o.CA) > 0:
		return nil, errors.New("cannot trust both a pinned authority and one from a file: give one of them")
	case o.Pin != "":
		pin, err := ParsePin(o.Pin)
		if err != nil {
			return nil, err
		}
		pin.trustIn(conf, base.Hostname())
	}
	if len(o.CA) > 0 {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(o.CA) {
			return nil, errors.New("cannot use the controller's CA: there is no PEM certificate in it")
		}
	}
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	// HTTP/1.1 only: on one shared HTTP/2 connection that died silently, every call would
	// wait for the same dead peer.
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  o.Proxy,
		DialContext:            dial,
		TLSClientConfig:        conf,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true,
		Protocols:              &protocols,
	}, nil
}
