package proxmox

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// rig is a cluster, its clock and a client of it.
type rig struct {
	*Server
	*Console
	t     testing.TB
	clock *Virtual
	http  *http.Client
	root  string // a token that may everything
}

var epoch = time.Unix(1796034587, 0)

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	clock := NewVirtual(epoch)
	if o.Clock == nil {
		o.Clock = clock
	} else if v, ok := o.Clock.(*Virtual); ok {
		clock = v
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	r := newRigFor(t, s)
	r.clock = clock
	r.root = r.AddToken(rootUser, "full", false)
	return r
}

// newRigFor is a client of a cluster.
func newRigFor(t testing.TB, s *Server) *rig {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.CA())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &rig{Server: s, Console: s.Console(), t: t, http: &http.Client{Transport: transport}}
}

// got is an answer as a client sees it.
type got struct {
	t      testing.TB
	what   string
	status int // 0: the connection was dropped
	reason string
	header http.Header
	body   []byte
	closed bool
}

func (r *rig) send(token, method, path, kind string, body io.Reader) got {
	r.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, r.URL()+root+path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "PVEAPIToken="+token)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	g := got{t: r.t, what: method + " " + path}
	resp, err := r.http.Do(req)
	if err != nil {
		return g
	}
	defer func() { _ = resp.Body.Close() }()
	g.status, g.header, g.closed = resp.StatusCode, resp.Header, resp.Close
	_, g.reason, _ = strings.Cut(resp.Status, " ")
	if g.body, err = io.ReadAll(resp.Body); err != nil {
		r.t.Fatal(err)
	}
	return g
}

func (r *rig) as(token, method, path, form string) got {
	r.t.Helper()
	if form == "" {
		return r.send(token, method, path, "", http.NoBody)
	}
	return r.send(token, method, path, "application/x-www-form-urlencoded", strings.NewReader(form))
}

func (r *rig) do(method, path, form string) got {
	r.t.Helper()
	return r.as(r.root, method, path, form)
}

// task sends what begins a task, waits for its end, and returns how it ended.
func (r *rig) task(token, method, path, form string) string {
	r.t.Helper()
	return r.ended(r.as(token, method, path, form).want(200, "OK").text())
}

func (r *rig) ended(upid string) string {
	r.t.Helper()
	for range 10000 {
		ch := r.Changed()
		if exit, _ := r.Exit(upid); exit != "" {
			return exit
		}
		select {
		case <-ch:
		case <-time.After(20 * time.Second):
			r.t.Fatalf("task %s does not end", upid)
		}
	}
	return ""
}

func (g got) want(status int, reason string) got {
	g.t.Helper()
	if g.status != status || g.reason != reason {
		g.t.Fatalf("%s answered %d %s, want %d %s: %s", g.what, g.status, g.reason, status, reason, g.body)
	}
	return g
}

// text is the data of an answer that is text.
func (g got) text() string {
	g.t.Helper()
	var out struct{ Data string }
	if err := json.Unmarshal(g.body, &out); err != nil {
		g.t.Fatalf("%s: %v: %s", g.what, err, g.body)
	}
	return out.Data
}

// row is the data of an answer that is an object.
func (g got) row() map[string]any {
	g.t.Helper()
	var out struct{ Data map[string]any }
	if err := json.Unmarshal(g.body, &out); err != nil {
		g.t.Fatalf("%s: %v: %s", g.what, err, g.body)
	}
	return out.Data
}

// rows is the data of an answer that is a list.
func (g got) rows() []map[string]any {
	g.t.Helper()
	var out struct{ Data []map[string]any }
	if err := json.Unmarshal(g.body, &out); err != nil {
		g.t.Fatalf("%s: %v: %s", g.what, err, g.body)
	}
	return out.Data
}

// field is what an answer says of a parameter.
func (g got) field(name string) string {
	g.t.Helper()
	var out struct{ Errors map[string]string }
	if err := json.Unmarshal(g.body, &out); err != nil {
		g.t.Fatalf("%s: %v: %s", g.what, err, g.body)
	}
	return out.Errors[name]
}

// upload uploads a file as Proxmox wants it: fields first.
func (r *rig) upload(token, node, storage, name string, data []byte, fields ...string) got {
	r.t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i+1 < len(fields); i += 2 {
		_ = w.WriteField(fields[i], fields[i+1])
	}
	f, err := w.CreateFormFile("filename", name)
	if err != nil {
		r.t.Fatal(err)
	}
	_, _ = f.Write(data)
	_ = w.Close()
	return r.send(token, "POST", fmt.Sprintf("/nodes/%s/storage/%s/upload", node, storage), w.FormDataContentType(), bytes.NewReader(b.Bytes()))
}

func form(pairs ...string) string {
	v := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	return v.Encode()
}
