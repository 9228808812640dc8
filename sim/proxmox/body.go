package proxmox

import (
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
)

// maxForm is the largest body of a request that is no upload.
const maxForm = 512 << 10

// verbs are the methods that pveproxy knows.
var verbs = map[string]bool{"GET": true, "POST": true, "PUT": true, "DELETE": true}

// parameters reads what was sent: the body of a POST or PUT, and the query.
func parameters(req *http.Request) (map[string]value, error) {
	out := map[string]value{}
	if req.Method == http.MethodPost || req.Method == http.MethodPut {
		if req.ContentLength > maxForm {
			return nil, bare(501, "for data too large", "for data too large")
		}
		kind, err := contentType(req)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(io.LimitReader(req.Body, maxForm))
		if err != nil {
			return nil, fmt.Errorf("cannot read the request: %w", err)
		}
		if kind == "application/json" {
			out, err = parseJSON(body)
		} else {
			err = parseForm(out, string(body))
		}
		if err != nil {
			return nil, err
		}
	}
	if err := parseForm(out, req.URL.RawQuery); err != nil {
		return nil, err
	}
	return out, nil
}

func contentType(req *http.Request) (string, error) {
	header := req.Header.Get("Content-Type")
	if header == "" || req.ContentLength == 0 {
		return "application/x-www-form-urlencoded", nil
	}
	kind, _, err := mime.ParseMediaType(header)
	if err != nil || kind != "application/x-www-form-urlencoded" && kind != "application/json" {
		return "", bare(506, fmt.Sprintf("upload 'Content-Type '%s' not implemented", header), fmt.Sprintf("upload 'Content-Type '%s' not implemented", header))
	}
	return kind, nil
}

// parseForm adds key=value pairs.
func parseForm(out map[string]value, text string) error {
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, "&") {
		if part == "" {
			continue
		}
		k, v, _ := strings.Cut(part, "=")
		key, err := url.QueryUnescape(k)
		if err == nil {
			v, err = url.QueryUnescape(v)
		}
		if err != nil {
			return bare(500, "cannot decode the form", "")
		}
		out[key] = value{text: v, list: seen[key]}
		seen[key] = true
	}
	return nil
}

// parseJSON reads an object of plain values. Numbers and booleans are what they would be in a form.
func parseJSON(body []byte) (map[string]value, error) {
	out := map[string]value{}
	if len(strings.TrimSpace(string(body))) == 0 {
		return out, nil
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		text := "'\"' expected, at character offset 1 (before \"(end of string)\") at /usr/share/perl5/PVE/APIServer/AnyEvent.pm line 934."
		return nil, bare(500, text, text+"\n")
	}
	for k, r := range raw {
		switch text := strings.TrimSpace(string(r)); {
		case text == "null":
		case text == "true":
			out[k] = value{text: "1"}
		case text == "false":
			out[k] = value{text: "0"}
		case strings.HasPrefix(text, "\""):
			var s string
			if err := json.Unmarshal(r, &s); err != nil {
				return nil, bare(500, "malformed JSON string", "malformed JSON string\n")
			}
			out[k] = value{text: s}
		case strings.HasPrefix(text, "["), strings.HasPrefix(text, "{"):
			out[k] = value{list: true}
		default:
			out[k] = value{text: text}
		}
	}
	return out, nil
}
