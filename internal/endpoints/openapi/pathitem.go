package openapi

import (
	"bytes"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// The following objects are common to v2 and v3.

// encodedPathItem is a Path Item Object with operations O and parameters P.
type encodedPathItem[O, P any] struct {
	Get        *O  `json:"get,omitempty"`
	Put        *O  `json:"put,omitempty"`
	Post       *O  `json:"post,omitempty"`
	Delete     *O  `json:"delete,omitempty"`
	Options    *O  `json:"options,omitempty"`
	Head       *O  `json:"head,omitempty"`
	Patch      *O  `json:"patch,omitempty"`
	Parameters []P `json:"parameters,omitempty"`
}

// slot returns a pointer to the field of a method, or nil for an unknown method.
func (p *encodedPathItem[O, P]) slot(method string) **O {
	switch method {
	case "get":
		return &p.Get
	case "put":
		return &p.Put
	case "post":
		return &p.Post
	case "delete":
		return &p.Delete
	case "options":
		return &p.Options
	case "head":
		return &p.Head
	case "patch":
		return &p.Patch
	default:
		return nil
	}
}

// writePaths writes the paths of a document as a JSON object.
func writePaths[O, P any](w *bytes.Buffer, items []pathItem, operation func(*operation) *O, parameters func([]parameter) []P) error {
	w.WriteByte('{')
	for i := range items {
		it := &items[i]
		if it.template != nil {
			if i > 0 {
				w.WriteByte(',')
			}
			writeSegments(w, it.json, it.names)
			continue
		}
		out := encodedPathItem[O, P]{Parameters: parameters(it.parameters)}
		for j := range it.operations {
			op := &it.operations[j]
			slot := out.slot(op.method)
			if slot == nil || *slot != nil {
				return fmt.Errorf("path %s: method %q is unknown or occurs twice", it.path, op.method)
			}
			*slot = operation(op)
		}
		if err := writeMember(w, i, it.path, &out); err != nil {
			return err
		}
	}
	w.WriteByte('}')
	return nil
}

// writeMember writes member i of a JSON object; value is a pointer to a struct.
func writeMember(w *bytes.Buffer, i int, name string, value any) error {
	if err := writeName(w, i, name); err != nil {
		return err
	}
	data, err := jsonplan.Append(w.AvailableBuffer(), value)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	w.Write(data)
	return nil
}

// writeRawMember writes member i with a JSON value.
func writeRawMember(w *bytes.Buffer, i int, name string, value []byte) error {
	if err := writeName(w, i, name); err != nil {
		return err
	}
	w.Write(value)
	return nil
}

func writeName(w *bytes.Buffer, i int, name string) error {
	if i > 0 {
		w.WriteByte(',')
	}
	key, err := jsonplan.Append(w.AvailableBuffer(), name)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	w.Write(key)
	w.WriteByte(':')
	return nil
}

// operationKind is the extension x-kubernetes-group-version-kind of an operation.
type operationKind struct {
	Group   string `json:"group"`
	Version string `json:"version"`
	Kind    string `json:"kind"`
}

func newOperationKind(kind *schema.GroupVersionKind) *operationKind {
	if kind == nil {
		return nil
	}
	return &operationKind{kind.Group, kind.Version, kind.Kind}
}

// schemaRef is a reference to a model, or a simple type.
type schemaRef struct {
	Ref         string `json:"$ref,omitempty"`
	Type        string `json:"type,omitempty"`
	UniqueItems bool   `json:"uniqueItems,omitempty"`
}

func newSchemaRef(prefix, model string) schemaRef {
	if model == modelText {
		return schemaRef{Type: "string"}
	}
	return schemaRef{Ref: prefix + model}
}

const (
	v3Reference = "#/components/schemas/"
	v2Reference = "#/definitions/"
)

// in returns the location of the parameter.
func (p *parameter) in() string {
	if p.inPath {
		return "path"
	}
	return "query"
}
