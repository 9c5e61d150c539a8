package openapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// KindSchema returns a schema with the types of a kind's fields and all references resolved, or nil without
// an error if the document does not contain the kind. d must be a v3 document. The caller owns the result.
// KindSchema decodes the complete document, which is slow. A field with several types or an unknown type
// becomes int-or-string.
func (d *Document) KindSchema(gvk schema.GroupVersionKind) (*apiextensions.JSONSchemaProps, error) {
	plain, err := d.PlainJSON()
	if err != nil {
		return nil, err
	}
	var document struct {
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(plain, &document); err != nil {
		return nil, fmt.Errorf("read the OpenAPI document of %s: %w", gvk.GroupVersion(), err)
	}
	e := expansion{schemas: document.Components.Schemas}
	for _, raw := range e.schemas {
		var described struct {
			Kinds []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
		}
		if json.Unmarshal(raw, &described) == nil && slices.Contains(described.Kinds, gvk) {
			return e.read(raw)
		}
	}
	return nil, nil
}

// expansion replaces references with the schemas that they refer to.
type expansion struct {
	schemas map[string]json.RawMessage
	// open contains the references that are being resolved. A recursive reference becomes a schema
	// that permits any value.
	open []string
}

// modelSchema contains the members of a schema that KindSchema uses.
type modelSchema struct {
	Ref                  string                     `json:"$ref"`
	AllOf                []json.RawMessage          `json:"allOf"`
	Type                 string                     `json:"type"`
	Format               string                     `json:"format"`
	Properties           map[string]json.RawMessage `json:"properties"`
	AdditionalProperties json.RawMessage            `json:"additionalProperties"`
	Items                json.RawMessage            `json:"items"`
	IntOrString          bool                       `json:"x-kubernetes-int-or-string"`
}

func anything() *apiextensions.JSONSchemaProps {
	return &apiextensions.JSONSchemaProps{XIntOrString: true}
}

func (e *expansion) read(raw json.RawMessage) (*apiextensions.JSONSchemaProps, error) {
	var m modelSchema
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("read a schema: %w", err)
	}
	if len(m.AllOf) == 1 && m.Type == "" && m.Ref == "" { // a reference with siblings
		return e.read(m.AllOf[0])
	}
	if m.Ref != "" {
		return e.follow(strings.TrimPrefix(m.Ref, "#/components/schemas/"))
	}
	if m.IntOrString || m.Format == "int-or-string" {
		return anything(), nil
	}
	switch m.Type {
	case "object":
		return e.object(&m)
	case "array":
		items, err := e.read(m.Items)
		if err != nil {
			return nil, err
		}
		return &apiextensions.JSONSchemaProps{Type: m.Type, Items: &apiextensions.JSONSchemaPropsOrArray{Schema: items}}, nil
	case "string", "boolean", "integer", "number":
		return &apiextensions.JSONSchemaProps{Type: m.Type, Format: m.Format}, nil
	}
	return anything(), nil
}

func (e *expansion) follow(name string) (*apiextensions.JSONSchemaProps, error) {
	raw, found := e.schemas[name]
	if !found || slices.Contains(e.open, name) {
		return anything(), nil
	}
	e.open = append(e.open, name)
	defer func() { e.open = e.open[:len(e.open)-1] }()
	return e.read(raw)
}

func (e *expansion) object(m *modelSchema) (*apiextensions.JSONSchemaProps, error) {
	made := &apiextensions.JSONSchemaProps{Type: m.Type}
	if len(m.Properties) == 0 {
		if len(m.AdditionalProperties) == 0 || m.AdditionalProperties[0] != '{' {
			return anything(), nil
		}
		values, err := e.read(m.AdditionalProperties)
		if err != nil {
			return nil, err
		}
		made.AdditionalProperties = &apiextensions.JSONSchemaPropsOrBool{Allows: true, Schema: values}
		return made, nil
	}
	made.Properties = make(map[string]apiextensions.JSONSchemaProps, len(m.Properties))
	for name, raw := range m.Properties {
		member, err := e.read(raw)
		if err != nil {
			return nil, err
		}
		made.Properties[name] = *member
	}
	return made, nil
}
