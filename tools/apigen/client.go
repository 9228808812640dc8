package main

import (
	"fmt"
	"sync"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oapi-codegen/oapi-codegen/v2/pkg/codegen"

	"github.com/zoomies-fleet/zoomies/controller/api"
)

// packageComment replaces the generator's own, which names no purpose.
const packageComment = "// Package rest is the API's types and calls, written by `make docs` from its OpenAPI description. Package client is the way to use\n" +
	"// it. It must never be edited by hand.\npackage rest\n"

// generating is held while the generator runs: it keeps its configuration in variables of its package.
var generating sync.Mutex

// clientCode is the client's types and calls. The generator reads OpenAPI 3.0.
func clientCode(s *api.Server) ([]byte, error) {
	text, err := s.OpenAPI().DowngradeYAML()
	if err != nil {
		return nil, err
	}
	loader := openapi3.NewLoader() // follows no reference out of the document
	doc, err := loader.LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("the description is no OpenAPI 3.0: %w", err)
	}
	version := "v2.8.2" // as go.mod pins it, also where no build information is at hand
	generating.Lock()
	defer generating.Unlock()
	code, err := codegen.Generate(doc, codegen.Configuration{
		PackageName:          "rest",
		Generate:             codegen.GenerateOptions{Models: true, Client: true},
		NoVCSVersionOverride: &version,
		OutputOptions: codegen.OutputOptions{
			SkipPrune: false, NameNormalizer: string(codegen.NameNormalizerFunctionToCamelCaseWithInitialisms),
			ResponseTypeSuffix: "Answer",
		},
	})
	if err != nil {
		return nil, err
	}
	return withComment([]byte(code))
}
