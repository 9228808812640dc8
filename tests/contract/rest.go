package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// kept are the parts of the API that this project uses; the whole description takes seconds to load.
var kept = []string{
	"/app", "/app-manifests/{code}/conversions", "/installation/repositories", "/rate_limit",
	"/orgs/{org}/actions/runners", "/orgs/{org}/actions/runner-groups",
	"/repos/{owner}/{repo}/actions/runners", "/repos/{owner}/{repo}/actions/runs", "/repos/{owner}/{repo}/actions/jobs",
}

// lenient are the schemas that may have more fields than they say: GitHub's errors do.
// So does the App that comes of a manifest: the description adds its secrets to the App's other fields.
var lenient = map[string]bool{"basic-error": true, "validation-error": true, "validation-error-simple": true, appOfManifest: true}

// appOfManifest is a copy of the description's App that may have more fields.
const appOfManifest = "integration-of-a-manifest"

// REST checks requests and responses of the REST API.
type REST struct {
	doc     *openapi3.T
	router  routers.Router
	formats openapi3.SchemaValidationOption
}

var loadREST = sync.OnceValues(func() (*REST, error) {
	raw, err := read("openapi/generated/api.github.com.json")
	if err != nil {
		return nil, err
	}
	if raw, err = extract(raw); err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(raw)
	if err != nil {
		return nil, fmt.Errorf("cannot load GitHub's description: %w", err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		return nil, fmt.Errorf("cannot make routes of GitHub's description: %w", err)
	}
	uri := openapi3.NewCallbackValidator(func(s string) error {
		u, err := url.Parse(s)
		if err == nil && !u.IsAbs() {
			err = fmt.Errorf("%q is not an absolute address", s)
		}
		return err
	})
	return &REST{doc, router, openapi3.WithStringFormatValidator("uri", uri)}, nil
})

// NewREST loads the description, once for the process.
func NewREST(tb testing.TB) *REST {
	tb.Helper()
	c, err := loadREST()
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func (c *REST) input(r *http.Request, body []byte) (*openapi3filter.RequestValidationInput, error) {
	u := *r.URL
	u.Path = strings.TrimPrefix(u.Path, "/api/v3")
	u.Scheme, u.Host = "https", "api.github.com"
	clean := r.Clone(context.Background())
	clean.URL, clean.Host = &u, u.Host
	clean.Body = io.NopCloser(bytes.NewReader(body))
	route, params, err := c.router.FindRoute(clean)
	if err != nil {
		return nil, fmt.Errorf("GitHub has no %s %s: %w", r.Method, u.Path, err)
	}
	return &openapi3filter.RequestValidationInput{
		Request: clean, PathParams: params, Route: route,
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true,
			SchemaValidationOptions: []openapi3.SchemaValidationOption{c.formats},
		},
	}, nil
}

// Request checks what a client sends.
func (c *REST) Request(r *http.Request, body []byte) error {
	in, err := c.input(r, body)
	if err != nil {
		return err
	}
	return short(openapi3filter.ValidateRequest(context.Background(), in))
}

// Response checks what the server answers. GitHub does not list every error of a route; one that is not listed has to be GitHub's
// usual error object. What GitHub does not have must be answered 404.
func (c *REST) Response(r *http.Request, status int, h http.Header, body []byte) error {
	in, err := c.input(r, nil)
	if err != nil {
		if (errors.Is(err, routers.ErrPathNotFound) || errors.Is(err, routers.ErrMethodNotAllowed)) && status == http.StatusNotFound {
			return c.plainError(status, h, body)
		}
		return err
	}
	if h.Get("X-RateLimit-Limit") == "" || h.Get("X-GitHub-Request-Id") == "" {
		return errors.New("the answer lacks x-ratelimit-limit or x-github-request-id")
	}
	if status >= 400 && in.Route.Operation.Responses.Status(status) == nil {
		return c.plainError(status, h, body)
	}
	if len(body) > 0 && !strings.HasPrefix(h.Get("Content-Type"), "application/json") {
		return fmt.Errorf("the content type is %q", h.Get("Content-Type"))
	}
	documented := in.Route.Operation.Responses.Status(status)
	if documented != nil && documented.Value != nil && len(documented.Value.Content) == 0 && len(body) > 0 {
		return fmt.Errorf("status %d has no body at GitHub", status)
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: status, Header: h, Options: in.Options}
	out.SetBodyBytes(body)
	return short(openapi3filter.ValidateResponse(context.Background(), out))
}

// short leaves the schema and the value out of an error: they fill a screen.
func short(err error) error {
	var se *openapi3.SchemaError
	if !errors.As(err, &se) {
		return err
	}
	for se.Origin != nil {
		var deeper *openapi3.SchemaError
		if !errors.As(se.Origin, &deeper) {
			break
		}
		se = deeper
	}
	return fmt.Errorf("at /%s: %s", strings.Join(se.JSONPointer(), "/"), se.Reason)
}

func (c *REST) plainError(status int, h http.Header, body []byte) error {
	if !strings.HasPrefix(h.Get("Content-Type"), "application/json") {
		return fmt.Errorf("an error %d of type %q", status, h.Get("Content-Type"))
	}
	var v map[string]any
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("an error %d that is no object: %w", status, err)
	}
	if v["message"] == nil || v["documentation_url"] == nil {
		return fmt.Errorf("an error %d without message or documentation_url", status)
	}
	return short(c.doc.Components.Schemas["basic-error"].Value.VisitJSON(v))
}
