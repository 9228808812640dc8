package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"gopkg.in/yaml.v3"
)

// parseFile reads zoomies.yaml. Keys nest or are dotted. It reads nodes rather than values,
// because an error must name the line. Anchors and aliases are refused: settings do not need
// them, and a few lines of them can expand without end.
func parseFile(path string, data []byte) (layer, []error) {
	r := fileReader{path: path, layer: newLayer()}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return r.layer, nil // empty, or comments only
	case err != nil:
		return r.layer, []error{fmt.Errorf("%s: %w", path, err)}
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return r.layer, []error{fmt.Errorf("%s: it holds more than one YAML document", path)}
	}
	root := doc.Content[0]
	switch {
	case isNull(root):
	case root.Kind != yaml.MappingNode:
		r.failf(root.Line, "it must be a mapping of settings")
	default:
		r.group("", root)
	}
	return r.layer, r.errs
}

type fileReader struct {
	path  string
	layer layer
	errs  []error
}

func (r *fileReader) failf(line int, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %w", r.path, line, fmt.Errorf(format, args...)))
}

// group reads the settings under prefix.
func (r *fileReader) group(prefix string, node *yaml.Node) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], node.Content[i+1]
		if name.Kind != yaml.ScalarNode {
			r.failf(name.Line, "a setting's name must be a plain word")
			continue
		}
		if name.Tag == "!!merge" {
			r.failf(name.Line, "merge keys are not read here; write the settings out")
			continue
		}
		key := name.Value
		if prefix != "" {
			key = prefix + "." + key
		}
		r.entry(key, name.Line, value)
	}
}

func (r *fileReader) entry(key string, line int, value *yaml.Node) {
	if value.Kind == yaml.AliasNode || value.Anchor != "" {
		r.failf(value.Line, "%s: anchors and aliases are not read here; write the value out", key)
		return
	}
	s, ok := byKey[key]
	if !ok {
		switch {
		case !isGroup(key):
			r.failf(line, "there is no setting %q%s", key, didYouMean(nearest(key)))
		case value.Kind == yaml.MappingNode:
			r.group(key, value)
		case !isNull(value):
			r.failf(line, "%q is a group of settings, not a setting", key)
		}
		return
	}
	if before, twice := r.layer.sources[key]; twice {
		r.failf(line, "%s is there twice, first at %s", key, before.Where)
		return
	}
	v, err := s.parseNode(value)
	if err != nil {
		r.failf(value.Line, "%s: %w", key, err)
		return
	}
	r.layer.values[key] = v
	r.layer.sources[key] = Source{Layer: FromFile, Where: fmt.Sprintf("%s:%d", r.path, line)}
}

// parseNode reads a YAML value as s's kind.
func (s Setting) parseNode(node *yaml.Node) (any, error) {
	switch {
	case isNull(node):
		return nil, errors.New("it has no value; give one or remove the line")
	case node.Kind == yaml.ScalarNode:
		return s.parse(node.Value)
	case node.Kind == yaml.SequenceNode && s.Kind == List:
		var words []string
		for _, item := range node.Content {
			if item.Kind != yaml.ScalarNode || isNull(item) {
				return nil, errors.New("each part of the list must be a plain word")
			}
			words = append(words, item.Value)
		}
		return s.checkList(words)
	case node.Kind == yaml.MappingNode && s.Kind == Map:
		m := map[string]string{}
		for i := 0; i+1 < len(node.Content); i += 2 {
			name, value := node.Content[i], node.Content[i+1]
			if name.Kind != yaml.ScalarNode || value.Kind != yaml.ScalarNode || name.Tag == "!!merge" || isNull(name) {
				return nil, errors.New("it must map names to plain values")
			}
			if _, twice := m[name.Value]; twice {
				return nil, fmt.Errorf("%q is there twice", name.Value)
			}
			text := value.Value
			if isNull(value) {
				text = ""
			}
			m[name.Value] = text
		}
		return checkMap(m)
	}
	return nil, fmt.Errorf("it must be a %s", s.Kind)
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }

// isGroup says whether some setting lies under key.
func isGroup(key string) bool {
	for _, s := range registry {
		if strings.HasPrefix(s.Key, key+".") {
			return true
		}
	}
	return false
}
