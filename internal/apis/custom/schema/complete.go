package schema

import (
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime"
)

// Complete prunes a document and sets its defaults, in one pass. It drops unknown members and nulls that the
// schema does not allow, and adds missing members that have a default. It does not prune apiVersion, kind and
// metadata of the document and of embedded resources. It modifies doc in place and is idempotent, except that
// it sets no more defaults after maxDefaults.
func (s *Schema) Complete(doc map[string]any) {
	w := walk{defaults: true, prune: true}
	w.object(s, doc, true)
}

// SetDefaults sets defaults like Complete, but preserves unknown members. It modifies doc in place.
func (s *Schema) SetDefaults(doc map[string]any) {
	w := walk{defaults: true}
	w.object(s, doc, true)
}

// maxUnknown is the maximum number of reported unknown members, and maxUnknownSize the maximum total size of their paths,
// in bytes. A document of a few MB can have a million unknown members, each with a path as deep as the document.
const maxUnknown, maxUnknownSize = 1000, 1 << 20

// Prune drops unknown members of doc in place. If report is set, it returns their paths, sorted. It returns
// only some of the paths if they exceed maxUnknown or maxUnknownSize.
func (s *Schema) Prune(doc map[string]any, report bool) (unknown []string) {
	w := walk{prune: true, report: report}
	w.object(s, doc, true)
	slices.Sort(w.unknown)
	return w.unknown
}

// PruneValue is like Prune, for a value that is not a whole document. It reports whether it has dropped a
// member.
func (s *Schema) PruneValue(value any) bool {
	w := walk{prune: true, report: true}
	w.value(s, value, s.Embedded)
	return len(w.unknown) > 0
}

// walk is one pass over a document.
type walk struct {
	prune, defaults, report bool
	// path is the path of the current value, if report is set.
	path        []byte
	unknown     []string
	unknownSize int // total size of unknown, in bytes
	// filled is the approximate memory of the defaults that were set, in bytes.
	filled int
}

// isMeta reports whether name is a member that every resource has.
func isMeta(name string) bool { return name == "metadata" || name == "apiVersion" || name == "kind" }

func (w *walk) value(s *Schema, value any, resource bool) {
	switch value := value.(type) {
	case map[string]any:
		w.object(s, value, resource)
	case []any:
		w.list(s, value)
	}
}

// object walks the members of an object. If s is nil, all members are unknown.
func (w *walk) object(s *Schema, doc map[string]any, resource bool) {
	if s != nil && w.defaults {
		w.fill(s, doc)
	}
	for name, value := range doc {
		if resource && isMeta(name) {
			w.fillMeta(s, name, value)
			continue
		}
		var member *Schema
		known := false
		if s != nil {
			member, known = s.member(name)
		}
		if !known {
			if s != nil && s.PreserveUnknown || !w.prune {
				continue
			}
			w.drop(doc, name)
			continue
		}
		if w.defaults && value == nil && member != nil && !member.Nullable {
			// A member that is still null and has a default is in Additional, because fill has already set
			// the defaults of Properties.
			if member.Default == nil || !w.spend(member) {
				delete(doc, name)
				continue
			}
			value = runtime.DeepCopyJSONValue(member.Default)
			doc[name] = value
		}
		switch value.(type) {
		case map[string]any, []any:
			mark := len(w.path)
			w.enter(name)
			w.value(member, value, member != nil && member.Embedded)
			w.path = w.path[:mark]
		}
	}
}

// fillMeta sets defaults below apiVersion, kind or metadata of a resource.
func (w *walk) fillMeta(s *Schema, name string, value any) {
	if s == nil || !w.defaults || s.Properties[name] == nil {
		return
	}
	inner := walk{defaults: true, filled: w.filled}
	inner.value(s.Properties[name], value, false)
	w.filled = inner.filled
}

// spend adds the size of a default to w.filled. It returns false if the sum exceeds maxDefaults.
func (w *walk) spend(s *Schema) bool {
	w.filled += s.defaultSize
	return w.filled <= maxDefaults
}

// fill sets the defaults of missing members.
func (w *walk) fill(s *Schema, doc map[string]any) {
	for _, name := range s.defaulted {
		member := s.Properties[name]
		if member.Default == nil {
			continue
		}
		if value, found := doc[name]; !found || value == nil && !member.Nullable {
			if !w.spend(member) {
				return
			}
			doc[name] = runtime.DeepCopyJSONValue(member.Default)
		}
	}
}

func (w *walk) list(s *Schema, list []any) {
	var items *Schema
	if s != nil {
		items = s.Items
		if items == nil && s.PreserveUnknown {
			return
		}
	}
	for i, value := range list {
		if w.defaults && value == nil && items != nil && !items.Nullable && items.Default != nil && w.spend(items) {
			value = runtime.DeepCopyJSONValue(items.Default)
			list[i] = value
		}
		switch value.(type) {
		case map[string]any, []any:
			mark := len(w.path)
			if w.report {
				w.path = append(w.path, '[')
				w.path = strconv.AppendInt(w.path, int64(i), 10)
				w.path = append(w.path, ']')
			}
			w.value(items, value, items != nil && items.Embedded)
			w.path = w.path[:mark]
		}
	}
}

func (w *walk) enter(name string) {
	if !w.report {
		return
	}
	if len(w.path) > 0 {
		w.path = append(w.path, '.')
	}
	w.path = append(w.path, name...)
}

func (w *walk) drop(doc map[string]any, name string) {
	delete(doc, name)
	if w.report && len(w.unknown) < maxUnknown && w.unknownSize < maxUnknownSize {
		mark := len(w.path)
		w.enter(name)
		w.unknown = append(w.unknown, string(w.path))
		w.unknownSize += len(w.path)
		w.path = w.path[:mark]
	}
}
