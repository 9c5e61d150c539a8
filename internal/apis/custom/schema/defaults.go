package schema

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// maxDefaults is the approximate maximum memory of all defaults that are added to one document, in bytes.
// Without this limit, a large default for the elements of a list could multiply the size of a small document. A
// document with more defaults is too large to be stored.
const maxDefaults = 64 << 20

// minDefaultSize is the approximate memory of a member or element without its content, in bytes.
const minDefaultSize = 64

// sizeOf returns the approximate memory of a value, in bytes.
func sizeOf(value any) int {
	size := minDefaultSize
	switch value := value.(type) {
	case string:
		size += len(value)
	case map[string]any:
		for name, member := range value {
			size += len(name) + sizeOf(member)
		}
	case []any:
		for _, element := range value {
			size += sizeOf(element)
		}
	}
	return size
}

// PruneDefaults prunes the default values in a schema. It drops unknown members, including those of metadata,
// and members of metadata that have the wrong type. It modifies s, which must not be in use yet.
func (s *Schema) PruneDefaults() { s.pruneDefaults(nil, false) }

// pruneDefaults prunes a node and its children. In metadata, steps is the path to the node from the
// enclosing resource; an empty step is a list element.
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
				_, _ = s.CoerceEmbedded(nil, doc, false, true) // drops malformed fields
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

// pruneInMetadata prunes a value at the path steps in the metadata, apiVersion or kind of a resource. It
// returns the pruned value, or nil if nothing remains.
func pruneInMetadata(value any, steps []string) any {
	doc, ok := wrapAt(value, steps).(map[string]any)
	if !ok {
		return value
	}
	_, _ = coerceMetadata(doc, nil, false, true) // drops malformed fields
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

// wrapAt returns a document that contains only the given value, at the path steps.
func wrapAt(value any, steps []string) any {
	for i := len(steps) - 1; i >= 0; i-- {
		if steps[i] == "" {
			value = []any{value}
		} else {
			value = map[string]any{steps[i]: value}
		}
	}
	return value
}
