package contract

import (
	"bytes"
	"fmt"
	"regexp"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Webhooks checks the payloads of webhooks.
type Webhooks struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	schemas  map[string]*jsonschema.Schema
}

const webhookSchema = "webhooks.json"

var loadWebhooks = sync.OnceValues(func() (*Webhooks, error) {
	raw, err := read("webhooks-schemas/schema.json")
	if err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("cannot parse GitHub's webhook schemas: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.RegisterFormat(&jsonschema.Format{Name: "uri-template", Validate: uriTemplate}) // the library's own knows no {/x}
	if err := c.AddResource(webhookSchema, doc); err != nil {
		return nil, fmt.Errorf("cannot load GitHub's webhook schemas: %w", err)
	}
	return &Webhooks{compiler: c, schemas: map[string]*jsonschema.Schema{}}, nil
})

// template is the part of RFC 6570 that GitHub uses.
var template = regexp.MustCompile(`^https?://[^{}\s]*(\{[+#./;?&]?[a-z_]+(,[a-z_]+)*\}[^{}\s]*)*$`)

func uriTemplate(v any) error {
	if s, ok := v.(string); ok && !template.MatchString(s) {
		return fmt.Errorf("%q is not an address with places to fill", s)
	}
	return nil
}

// NewWebhooks loads the schemas, once for the process.
func NewWebhooks(tb testing.TB) *Webhooks {
	tb.Helper()
	w, err := loadWebhooks()
	if err != nil {
		tb.Fatal(err)
	}
	return w
}

// Payload checks one payload of an event, "workflow_job" or "ping".
func (w *Webhooks) Payload(event string, body []byte) error {
	name := event + "_event"
	if event == "ping" {
		name = "ping$event" // the one event that has no actions to tell apart
	}
	sch, err := w.schema(name)
	if err != nil {
		return err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("cannot parse the payload: %w", err)
	}
	return sch.Validate(v)
}

func (w *Webhooks) schema(name string) (*jsonschema.Schema, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s, ok := w.schemas[name]; ok {
		return s, nil
	}
	s, err := w.compiler.Compile(webhookSchema + "#/definitions/" + name)
	if err != nil {
		return nil, fmt.Errorf("cannot compile GitHub's schema %s: %w", name, err)
	}
	w.schemas[name] = s
	return s, nil
}
