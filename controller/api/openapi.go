package api

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humachi"

	"github.com/zoomies-fleet/zoomies/controller/auth"
)

// APIVersion is the version of the API itself. The part before the first point moves when something that worked no longer does.
const APIVersion = "1.0.0"

func openAPIConfig(string) huma.Config {
	humaErrors()
	c := huma.DefaultConfig("Zoomies", APIVersion)
	c.Info.Description = "The API of a Zoomies controller. Errors are RFC 9457 problems. Creates take an Idempotency-Key. Reads carry an ETag; " +
		"changes take If-Match."
	c.OpenAPIPath, c.DocsPath, c.SchemasPath = "", "", "" // served under guards of their own
	c.CreateHooks = nil                                   // no $schema in the answers
	c.RejectUnknownQueryParameters = true
	c.AllowAdditionalPropertiesByDefault = false
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token":   {Type: "http", Scheme: "bearer", Description: "An API token: zoo_…"},
		"session": {Type: "apiKey", In: "cookie", Name: sessionCookie},
	}
	return c
}

// operation is a guard as OpenAPI has it.
func (s *Server) operation(g auth.Guard) huma.Operation {
	op := huma.Operation{
		OperationID: g.ID, Method: g.Method, Path: g.Path, Summary: g.Summary, Description: g.Need() + ".",
		Tags: []string{tagOf(g.Path)}, Errors: []int{http.StatusUnprocessableEntity, http.StatusTooManyRequests},
		MaxBodyBytes: maxBody,
	}
	switch g.Access {
	case auth.ByRole, auth.AnyUser:
		op.Security = []map[string][]string{{"token": {}}, {"session": {}}}
		op.Errors = append(op.Errors, http.StatusUnauthorized, http.StatusForbidden)
	default:
	}
	if strings.Contains(g.Path, "{") {
		op.Errors = append(op.Errors, http.StatusNotFound)
	}
	if g.Writes() {
		op.Errors = append(op.Errors, http.StatusConflict)
	}
	switch {
	case g.Creates:
		op.DefaultStatus = http.StatusCreated
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: idempotencyHeader, In: "header", Schema: &huma.Schema{Type: "string", MinLength: new(1), MaxLength: new(255)},
			Description: "A key of your choice. The same request with the same key is carried out once, and answered alike, for a day.",
		})
	case g.Method == http.MethodDelete:
		op.DefaultStatus = http.StatusNoContent
	}
	return op
}

// tagOf is the resource of a path: the part behind the version.
func tagOf(path string) string {
	rest := strings.TrimPrefix(path, "/api/v1/")
	tag, _, _ := strings.Cut(rest, "/")
	return tag
}

// OpenAPI is the API's own description.
func (s *Server) OpenAPI() *huma.OpenAPI { return s.api.OpenAPI() }

func (s *Server) openAPIJSON(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/openapi+json")
	_ = json.NewEncoder(w).Encode(s.api.OpenAPI()) // the client is gone: nothing to do
}

func (s *Server) openAPIYAML(w http.ResponseWriter, r *http.Request) {
	text, err := s.api.OpenAPI().YAML()
	if err != nil {
		s.writeProblem(w, r, s.fail(r.Context(), mustFind("openapi-yaml"), err))
		return
	}
	w.Header().Set("Content-Type", "application/openapi+yaml")
	_, _ = w.Write(text) // the client is gone: nothing to do
}

// humaUnwrap is the request and the answer below huma's context.
func humaUnwrap(hctx huma.Context) (*http.Request, http.ResponseWriter) { return humachi.Unwrap(hctx) }
