package schema

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// PruneDefaults drops from the defaults of a schema what would be dropped from
// values: members that the schema, or metadata, does not know, and metadata of
// wrong types. It is for a schema that nothing uses yet.
func (s *Schema) PruneDefaults() { s.pruneDefaults(nil, false) }

// pruneDefaults prunes a node and those below. steps lead to it from the resource
// that it is in the metadata of; an empty one is an element of a list.
func (s *Schema) pruneDefaults(steps []string, inMeta bool) {
	if s.Embedded {
		steps, inMeta = nil, false
	}
	if s.Default != nil {
		value := runtime.DeepCopyJSONValue(s.Default)
		if inMeta {
			s.Default = pruneInMetadata(value, steps)
		} else {
			s.PruneValue(value)
			if doc, ok := value.(map[string]any); ok {
				_, _ = s.CoerceEmbedded(nil, doc, false, true) // which drops what is malformed
			}
			s.Default = value
		}
	}
	below := func(member *Schema, name string, inMeta bool) {
		member.pruneDefaults(append(steps[:len(steps):len(steps)], name), inMeta)
	}
	if s.Items != nil {
		below(s.Items, "", inMeta)
	}
	for _, name := range s.names {
		below(s.Properties[name], name, inMeta || s.Embedded && isMeta(name))
	}
}

// pruneInMetadata returns what is left of a value in the metadata or type of a
// resource, to which steps lead; nil for nothing.
func pruneInMetadata(value any, steps []string) any {
	doc, ok := surround(value, steps).(map[string]any)
	if !ok {
		return value
	}
	_, _ = coerceMetadata(doc, "", false, true) // which drops what is malformed
	var left any = doc
	for _, step := range steps {
		switch around := left.(type) {
		case map[string]any:
			left = around[step]
		case []any:
			if len(around) == 0 {
				return nil
			}
			left = around[0]
		default:
			return nil
		}
	}
	return left
}

// surround returns the value that has a value where steps lead to.
func surround(value any, steps []string) any {
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i] == "" {
			value = []any{value}
		} else {
			value = map[string]any{steps[i]: value}
		}
	}
	return value
}
