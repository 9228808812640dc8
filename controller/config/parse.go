package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// parse reads text as s's kind and checks the bounds. Its errors quote the text, which is
// never a secret: a secret is a file.
func (s Setting) parse(text string) (any, error) {
	switch s.Kind {
	case String, SecretFile:
		return s.parseString(text)
	case Int:
		return s.parseInt(text)
	case Bool:
		v, err := strconv.ParseBool(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%q is neither true nor false", text)
		}
		return v, nil
	case Duration:
		return s.parseDuration(text)
	case List:
		var words []string
		for word := range strings.SplitSeq(text, ",") {
			if word = strings.TrimSpace(word); word != "" {
				words = append(words, word)
			}
		}
		return s.checkList(words)
	case Map:
		return parseMap(text)
	}
	return nil, fmt.Errorf("unknown kind %q", s.Kind)
}

func (s Setting) parseString(text string) (any, error) {
	if strings.ContainsAny(text, "\x00\n\r") {
		return nil, errors.New("it must be one line of text")
	}
	if s.Values != nil && !slices.Contains(s.Values, text) {
		return nil, fmt.Errorf("%q is not one of %s", text, strings.Join(s.Values, ", "))
	}
	return text, nil
}

func (s Setting) parseInt(text string) (any, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("%q is not a whole number", text)
	}
	if floor, err := strconv.Atoi(s.Floor); err == nil && n < floor {
		return nil, fmt.Errorf("%d is less than %d, the least it may be", n, floor)
	}
	if ceiling, err := strconv.Atoi(s.Ceiling); err == nil && n > ceiling {
		return nil, fmt.Errorf("%d is more than %d, the most it may be", n, ceiling)
	}
	return n, nil
}

func (s Setting) parseDuration(text string) (any, error) {
	text = strings.TrimSpace(text)
	d, err := time.ParseDuration(text)
	if err != nil {
		if _, err := strconv.ParseFloat(text, 64); err == nil {
			return nil, fmt.Errorf("%q has no unit; write %ss for seconds", text, text)
		}
		return nil, fmt.Errorf("%q is not a duration such as 90s, 5m or 1h30m", text)
	}
	if floor, err := time.ParseDuration(s.Floor); err == nil && d < floor {
		return nil, fmt.Errorf("%s is less than %s, the least it may be", d, s.Floor)
	}
	if ceiling, err := time.ParseDuration(s.Ceiling); err == nil && d > ceiling {
		return nil, fmt.Errorf("%s is more than %s, the most it may be", d, s.Ceiling)
	}
	return d, nil
}

func (s Setting) checkList(words []string) (any, error) {
	for i, word := range words {
		if s.Values != nil && !slices.Contains(s.Values, word) {
			return nil, fmt.Errorf("%q is not one of %s", word, strings.Join(s.Values, ", "))
		}
		if slices.Contains(words[:i], word) {
			return nil, fmt.Errorf("%q is there twice", word)
		}
	}
	if len(words) == 0 && s.Default != "" {
		return nil, errors.New("the list is empty")
	}
	return slices.Clone(words), nil
}

// parseMap reads a JSON object of strings, or NAME=value pairs with commas between them.
func parseMap(text string) (any, error) {
	m := map[string]string{}
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, "{") {
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			return nil, errors.New("it is not a JSON object whose values are all strings")
		}
		return checkMap(m)
	}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		if !ok {
			// The pair may be the tail of a secret value with a comma in it: do not quote it.
			return nil, errors.New("a part is not NAME=value; use a JSON object when a value holds a comma")
		}
		if _, twice := m[name]; twice {
			return nil, fmt.Errorf("%q is there twice", name)
		}
		m[name] = value
	}
	return checkMap(m)
}

// checkMap refuses names and values that no process environment can hold.
func checkMap(m map[string]string) (any, error) {
	for _, name := range sortedKeys(m) {
		if name == "" || strings.ContainsAny(name, "=\x00 \t\r\n") {
			return nil, fmt.Errorf("%q cannot be the name of a variable", name)
		}
		if strings.ContainsRune(m[name], 0) {
			return nil, fmt.Errorf("the value of %q holds a zero byte", name)
		}
	}
	return m, nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
