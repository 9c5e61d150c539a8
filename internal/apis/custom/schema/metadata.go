package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// CoerceMetadata drops unknown members of a document's metadata in place, and returns their paths if
// report is set. If lenient is set, it also drops members of a wrong type; otherwise it returns an
// error with a message for clients.
func CoerceMetadata(doc map[string]any, report, lenient bool) (unknown []string, err error) {
	return coerceMetadata(doc, field.NewPath("metadata"), report, lenient)
}

// CoerceEmbedded is like CoerceMetadata, for the metadata and type of all resources embedded in a document.
// base is the path of the document in errors. The error is a *field.Error.
func (s *Schema) CoerceEmbedded(base *field.Path, doc map[string]any, report, lenient bool) (unknown []string, err error) {
	if s.below&hasEmbedded == 0 {
		return nil, nil
	}
	size := 0 // of unknown
	err = s.eachEmbedded(doc, base, func(resource map[string]any, at *field.Path) error {
		for _, name := range []string{"apiVersion", "kind"} {
			value, found := resource[name]
			if _, isText := value.(string); !found || isText {
				continue
			}
			if !lenient {
				return field.Invalid(at.Child(name), value, "must be a string")
			}
			delete(resource, name)
		}
		at = at.Child("metadata")
		found, err := coerceMetadata(resource, at, report && len(unknown) < maxUnknown && size < maxUnknownSize, lenient)
		unknown = append(unknown, found...)
		for _, path := range found {
			size += len(path)
		}
		if err != nil {
			return field.Invalid(at, resource["metadata"], err.Error())
		}
		return nil
	})
	return unknown, err
}

// eachEmbedded visits the resources embedded in a value, in the order of their sorted names and indexes.
func (s *Schema) eachEmbedded(value any, at *field.Path, visit func(resource map[string]any, at *field.Path) error) error {
	if s == nil || s.below&hasEmbedded == 0 {
		return nil
	}
	switch value := value.(type) {
	case map[string]any:
		if s.Embedded {
			if err := visit(value, at); err != nil {
				return err
			}
		}
		for _, name := range sortedKeys(value) {
			member, declared := s.Properties[name]
			if !declared {
				member = s.Additional
			}
			if member == nil || member.below&hasEmbedded == 0 {
				continue
			}
			memberAt := at.Key(name)
			if declared {
				memberAt = at.Child(name)
			}
			if err := member.eachEmbedded(value[name], memberAt, visit); err != nil {
				return err
			}
		}
	case []any:
		for i := range value {
			if err := s.Items.eachEmbedded(value[i], at.Index(i), visit); err != nil {
				return err
			}
		}
	}
	return nil
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// coerceMetadata formats path only if metadata has unknown members, because a path can be as long as the document.
func coerceMetadata(doc map[string]any, path *field.Path, report, lenient bool) ([]string, error) {
	raw, found := doc["metadata"]
	if !found || isPlainMetadata(raw) {
		return nil, nil
	}
	encoded, err := json.Marshal(raw)
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	var meta metav1.ObjectMeta
	strict, err := kjson.UnmarshalStrict(encoded, &meta)
	if err != nil {
		if !lenient {
			return nil, err
		}
		meta = decodeValidMembers(raw)
	}
	var unknown []string
	if report {
		for _, fault := range strict {
			if f, ok := fault.(kjson.FieldError); ok {
				unknown = append(unknown, path.String()+"."+f.FieldPath())
			}
		}
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&meta)
	if err != nil {
		return nil, fmt.Errorf("convert metadata: %w", err)
	}
	if meta.CreationTimestamp.IsZero() {
		delete(content, "creationTimestamp")
	}
	doc["metadata"] = content
	return unknown, nil
}

// decodeValidMembers decodes the members of metadata one by one, and ignores malformed members.
func decodeValidMembers(raw any) metav1.ObjectMeta {
	var meta metav1.ObjectMeta
	members, _ := raw.(map[string]any)
	for _, name := range sortedKeys(members) {
		encoded, err := json.Marshal(map[string]any{name: members[name]})
		if err != nil {
			continue
		}
		var trial metav1.ObjectMeta
		if kjson.UnmarshalCaseSensitivePreserveInts(encoded, &trial) == nil {
			_ = kjson.UnmarshalCaseSensitivePreserveInts(encoded, &meta) // cannot fail, because decoding into trial succeeded
		}
	}
	return meta
}

// isPlainMetadata reports whether decoding and encoding metadata certainly does not change it. The check is a
// fast path, so a result of false does not imply a change.
func isPlainMetadata(raw any) bool {
	members, ok := raw.(map[string]any)
	if !ok {
		return false
	}
	for name, value := range members {
		if !isPlainMember(name, value) {
			return false
		}
	}
	return true
}

func isPlainMember(name string, value any) bool {
	switch name {
	case "name", "generateName", "namespace", "selfLink", "uid", "resourceVersion":
		return isText(value)
	case "creationTimestamp", "deletionTimestamp":
		return isTime(value)
	case "generation", "deletionGracePeriodSeconds":
		number, ok := value.(int64)
		return ok && number != 0
	case "labels", "annotations":
		return isStringMap(value)
	case "finalizers":
		return isListOf(value, isText)
	case "ownerReferences":
		return isListOf(value, isPlainOwner)
	case "managedFields":
		return isListOf(value, isPlainManager)
	}
	return false
}

func isText(value any) bool {
	text, ok := value.(string)
	return ok && text != ""
}

func isTime(value any) bool {
	text, ok := value.(string)
	if !ok || !strings.HasSuffix(text, "Z") || strings.Contains(text, ".") {
		return false // the encoding may differ
	}
	_, err := time.Parse(time.RFC3339, text)
	return err == nil
}

func isStringMap(value any) bool {
	members, ok := value.(map[string]any)
	if !ok || len(members) == 0 {
		return false
	}
	for _, v := range members {
		if _, ok := v.(string); !ok {
			return false
		}
	}
	return true
}

func isListOf(value any, is func(any) bool) bool {
	list, ok := value.([]any)
	return ok && len(list) > 0 && !slices.ContainsFunc(list, func(v any) bool { return !is(v) })
}

func isPlainOwner(value any) bool {
	members, ok := value.(map[string]any)
	if !ok || len(members) < 4 {
		return false
	}
	for name, v := range members {
		switch name {
		case "apiVersion", "kind", "name", "uid":
			_, ok = v.(string)
		case "controller", "blockOwnerDeletion":
			_, ok = v.(bool)
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return true
}

func isPlainManager(value any) bool {
	members, ok := value.(map[string]any)
	if !ok {
		return false
	}
	for name, v := range members {
		switch name {
		case "manager", "operation", "apiVersion", "fieldsType", "subresource":
			ok = isText(v)
		case "time":
			ok = isTime(v)
		case "fieldsV1":
			_, ok = v.(map[string]any)
		default:
			ok = false
		}
		if !ok {
			return false
		}
	}
	return true
}
