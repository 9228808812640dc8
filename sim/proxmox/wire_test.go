package proxmox

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestWhoIsTurnedAway holds the words for credentials.
func TestWhoIsTurnedAway(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	good := r.AddToken("ci@pve", "a", false)
	expired := r.AddToken("ci@pve", "old", false)
	r.ExpireToken("ci@pve!old", epoch.Add(-time.Hour))
	revoked := r.AddToken("ci@pve", "gone", false)
	r.Revoke("ci@pve!gone")
	disabled := r.AddToken("off@pve", "a", false)
	r.Disable("off@pve", true)
	_, secret, _ := strings.Cut(good, "=")
	const failed, none = "Authentication failed!", "No ticket"
	for _, tt := range []struct{ name, header, reason string }{
		{"nothing", "", none},
		{"another scheme", "Bearer " + secret, none},
		{"lower case", "pveapitoken=" + good, none},
		{"wrong secret", "PVEAPIToken=ci@pve!a=00000000-0000-0000-0000-000000000000", failed},
		{"unknown user", "PVEAPIToken=no@pve!a=" + secret, failed},
		{"no secret", "PVEAPIToken=ci@pve!a", failed},
		{"colon", "PVEAPIToken=ci@pve!a:" + secret, failed},
		{"expired", "PVEAPIToken=" + expired, failed},
		{"removed", "PVEAPIToken=" + revoked, failed},
		{"disabled", "PVEAPIToken=" + disabled, failed},
		{"space for the first equals sign", "PVEAPIToken " + good, "OK"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.URL()+root+"/version", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			if tt.header != "" {
				req.Header.Set("Authorization", tt.header)
			}
			resp, err := r.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			body, _ := io.ReadAll(resp.Body)
			want := "401 " + tt.reason
			if tt.reason == "OK" {
				want = "200 OK"
			}
			if resp.Status != want {
				t.Errorf("answered %s, want %s", resp.Status, want)
			}
			if resp.StatusCode == http.StatusUnauthorized && (len(body) > 0 || resp.Header.Get("Content-Type") != "" || !resp.Close) {
				t.Errorf("a 401 has body %q, type %q, close %v", body, resp.Header.Get("Content-Type"), resp.Close)
			}
		})
	}
}

// TestWireRefusals are what is refused before any method is called.
func TestWireRefusals(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	form := "application/x-www-form-urlencoded"
	for _, tt := range []struct {
		name, method, path, kind string
		body                     io.Reader
		status                   int
		reason, text             string
	}{
		{"HEAD", "HEAD", "/version", "", http.NoBody, 501, "method 'HEAD' not available", ""},
		{"PATCH", "PATCH", "/version", "", http.NoBody, 501, "method 'PATCH' not available", ""},
		{"chunked", "POST", "/pools", form, io.MultiReader(strings.NewReader("poolid=x")), 501, "chunked transfer encoding not supported", "chunked transfer encoding not supported"},
		{"large form", "POST", "/pools", form, bytes.NewReader(make([]byte, 513<<10)), 501, "for data too large", "for data too large"},
		{"text", "POST", "/pools", "text/plain", strings.NewReader("x"), 506, "upload 'Content-Type 'text/plain' not implemented", "upload 'Content-Type 'text/plain' not implemented"},
		{"bad JSON", "POST", "/pools", "application/json", strings.NewReader("{a"), 500, "", "'\"' expected, at character offset 1"},
		{"unknown method", "PUT", "/version", "", http.NoBody, 501, "Method 'PUT /version' not implemented", "Method 'PUT /version' not implemented"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := r.send(r.root, tt.method, tt.path, tt.kind, tt.body)
			if g.status != tt.status || tt.reason != "" && g.reason != tt.reason || !strings.Contains(string(g.body), tt.text) || !g.closed {
				t.Errorf("answered %d %q %q (closed: %v)", g.status, g.reason, g.body, g.closed)
			}
		})
	}
}

// TestConnections: a 200 keeps the connection, errors and uploads close it; long answers are compressed for who asks; plain HTTP is sent
// to HTTPS; Expect is ignored.
func TestConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	if g := r.do("GET", "/version", ""); g.closed {
		t.Error("a 200 to a GET closes the connection")
	}
	if g := r.do("GET", "/nodes/pve1/qemu/999/config", ""); !g.closed {
		t.Error("an error leaves the connection open")
	}
	if g := r.upload(r.root, "pve1", "local", "a.iso", []byte("x"), "content", "iso"); g.status != 200 || !g.closed {
		t.Errorf("an upload answers %d (closed: %v)", g.status, g.closed)
	}
	raw := func(c net.Conn, text string) (int, http.Header) {
		t.Helper()
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		return resp.StatusCode, resp.Header
	}
	dial := func() net.Conn {
		t.Helper()
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.URL(), "https://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	if status, h := raw(dial(), "GET /x HTTP/1.1\r\nHost: pve:8006\r\n\r\n"); status != http.StatusMovedPermanently || h.Get("Location") != "https://pve:8006/x" {
		t.Errorf("plain HTTP is answered %d %s", status, h.Get("Location"))
	}
	secure := tls.Client(dial(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
	status, _ := raw(secure, "POST /api2/json/pools HTTP/1.1\r\nHost: x\r\nAuthorization: PVEAPIToken="+r.root+
		"\r\nContent-Type: application/x-www-form-urlencoded\r\nExpect: 100-continue\r\nContent-Length: 8\r\n\r\npoolid=p")
	if status != http.StatusOK || secure.ConnectionState().NegotiatedProtocol != "http/1.1" {
		t.Errorf("answered %d over %s", status, secure.ConnectionState().NegotiatedProtocol)
	}
	for i := range 20 {
		if err := r.Create("pve1", 300+i, nil); err != nil {
			t.Fatal(err)
		}
	}
	_, h := raw(secure, "GET /api2/json/cluster/resources HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nAuthorization: PVEAPIToken="+r.root+"\r\n\r\n")
	if h.Get("Content-Encoding") != "gzip" {
		t.Error("a long answer is not compressed")
	}
}

// TestFingerprint: what a client would pin is what the API says of the entry node.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Cluster: ThreeNodes()})
	rows := r.do("GET", "/nodes", "").rows()
	if len(rows) != 3 || rows[0]["ssl_fingerprint"] != r.Fingerprint() || rows[1]["ssl_fingerprint"] == r.Fingerprint() {
		t.Errorf("nodes: %v", rows)
	}
}

// TestJSONBooleans: true and false are accepted in JSON only.
func TestJSONBooleans(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	if err := r.Create("pve1", 200, nil); err != nil {
		t.Fatal(err)
	}
	g := r.send(r.root, "PUT", "/nodes/pve1/qemu/200/config", "application/json; charset=utf-8", strings.NewReader(`{"onboot":true,"cores":2,"tags":null}`))
	g.want(200, "OK")
	if row := r.do("GET", "/nodes/pve1/qemu/200/config", "").row(); row["onboot"] != 1.0 || row["cores"] != 2.0 {
		t.Errorf("config: %v", row)
	}
	if text := r.do("PUT", "/nodes/pve1/qemu/200/config", "onboot=true").field("onboot"); text != "type check ('boolean') failed - got 'true'" {
		t.Errorf("a form's true: %q", text)
	}
}

// TestNodesThatDoNotAnswer: an unknown name is a 500, one that refuses a 595, one that is silent a 596 after half a minute; what the entry
// node answers itself it still answers.
func TestNodesThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Cluster: ThreeNodes()})
	if err := r.Create("pve1", 200, nil); err != nil {
		t.Fatal(err)
	}
	r.do("GET", "/nodes/nosuch/qemu", "").want(500, "hostname lookup 'nosuch' failed - failed to get address info for: nosuch: Temporary failure in name resolution")
	r.do("GET", "/nodes/PVE2/qemu", "").want(595, "Connection refused")
	r.SetOffline("pve2", "No route to host")
	if g := r.do("POST", "/nodes/pve2/qemu", "vmid=300").want(595, "No route to host"); len(g.body) > 0 {
		t.Errorf("a 595 has a body: %s", g.body)
	}
	r.SetOffline("pve2", timedOut)
	before := r.clock.Now()
	r.do("GET", "/nodes/pve2/qemu", "").want(596, "Connection timed out")
	if took := r.clock.Now().Sub(before); took < 30*time.Second {
		t.Errorf("the proxy waited %v", took)
	}
	r.SetDaemon("pve1", false)
	r.do("GET", "/nodes/pve1/qemu", "").want(595, "Connection refused")
	r.do("GET", "/nodes/pve1/qemu/200/config", "").want(200, "OK")
	r.do("GET", "/cluster/resources", "").want(200, "OK")
	r.do("GET", "/version", "").want(200, "OK")
	r.SetQuorum(false)
	r.do("GET", "/version", "").want(500, "RPCEnvironment init request failed: Unable to load access control list: Connection refused")
}
