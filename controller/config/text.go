package config

import (
	"encoding/json"
	"reflect"
	"strings"
	"time"
)

// Text is the value of key in force, in the form that the environment and the database take. Empty for a key that does not exist.
func (c *Config) Text(key string) string {
	if _, ok := byKey[key]; !ok {
		return ""
	}
	v := reflect.ValueOf(c).Elem()
	for part := range strings.SplitSeq(key, ".") {
		v = field(v, part) // a test holds the fields to the registry
	}
	switch x := v.Interface().(type) {
	case time.Duration:
		return x.String()
	case string:
		return x
	case []string:
		return strings.Join(x, ",")
	case map[string]string:
		if len(x) == 0 {
			return ""
		}
	}
	raw, err := json.Marshal(v.Interface()) // numbers, truths and maps of text
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func field(v reflect.Value, name string) reflect.Value {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("koanf") == name {
			return v.Field(i)
		}
	}
	panic("config: no field for " + name)
}

// Find returns the setting of that key; did says what may have been meant when there is none.
func Find(key string) (s Setting, did string, ok bool) {
	s, ok = byKey[key]
	if !ok {
		did = didYouMean(nearest(key))
	}
	return s, did, ok
}
