package config

import "testing"

// TLS is on as soon as another machine can reach the listener, unless somebody switched it off.
func TestServes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		listen, mode, cert string
		want               Proof
	}{
		{"127.0.0.1:8080", "auto", "", NoTLS},
		{"localhost:8080", "auto", "", NoTLS},
		{":8080", "auto", "", OwnCA},
		{"zoomies.example.org:443", "auto", "", OwnCA},
		{"192.0.2.1:443", "off", "", NoTLS},
		{"192.0.2.1:443", "off", "/c", NoTLS},
		{"127.0.0.1:8080", "auto", "/c", FromFiles},
		{":443", "files", "", FromFiles},
	} {
		c := Default()
		c.Listen, c.TLS.Mode, c.TLS.CertFile = tt.listen, tt.mode, tt.cert
		if got := c.Serves(); got != tt.want {
			t.Errorf("%s, tls.mode %s, cert_file %q: %s, want %s", tt.listen, tt.mode, tt.cert, got, tt.want)
		}
	}
}
