package custom

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/codec"
	"mainstay.dev/mainstay/codec/jsonplan"
	"mainstay.dev/mainstay/openapi"
)

const (
	metaModels  = "io.k8s.apimachinery.pkg.apis.meta.v1."
	conventions = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
)

// form is what a schema is written for.
type form int

const (
	openAPIV3  form = iota
	openAPIV2       // has no alternatives and no null
	forMerging      // as version 3, with the references of version 2
)

// Digest identifies what the OpenAPI documents say of a group version. It costs
// no reading of definitions.
func (s *Source) Digest(gv schema.GroupVersion) string {
	h := sha256.New()
	for _, e := range s.servedIn(gv) {
		fmt.Fprintf(h, "%s %s %d %v\n", e.name, e.uid, e.generation, e.accepted)
	}
	return fmt.Sprintf("%X", h.Sum(nil))
}

func (s *Source) servedIn(gv schema.GroupVersion) []*entry {
	var served []*entry
	for e := range s.current.Load().group(gv.Group) {
		if e.isServed() && e.version(gv.Version) != nil {
			served = append(served, e)
		}
	}
	return served
}

// Schemas returns the OpenAPI schemas of a group version, by model name, written
// for version 2 or 3. They are made of the stored definitions, and nothing is kept
// of them.
func (s *Source) Schemas(ctx context.Context, gv schema.GroupVersion, v2 bool) (map[string]openapi.Schema, error) {
	as := openAPIV3
	if v2 {
		as = openAPIV2
	}
	models := map[string]openapi.Schema{}
	for _, e := range s.servedIn(gv) {
		record, err := s.stored(ctx, e.name)
		if err != nil {
			return nil, err
		}
		m, err := newModelMaker(record, gv.Version)
		if err != nil {
			return nil, err
		}
		if m == nil {
			continue // it has just gone
		}
		if err := m.add(models, as); err != nil {
			return nil, fmt.Errorf("OpenAPI schema of %s in version %s: %w", e.name, gv.Version, err)
		}
	}
	return models, nil
}

// modelMaker makes the models of a version: of its kind, and of the list.
type modelMaker struct {
	crd     *apiextensionsv1.CustomResourceDefinition
	version *apiextensionsv1.CustomResourceDefinitionVersion
	// schema is that of the version as it is stored, which object makes the model
	// of; nil: it is in version.
	schema map[string]any
}

// newModelMaker reads a definition: the schema as a document, from the stored
// bytes, where they look as expected. It is nil where there is no such version.
func newModelMaker(record *codec.Record, version string) (*modelMaker, error) {
	crd, err := headOf(record)
	if err != nil {
		return nil, err
	}
	m := &modelMaker{crd: crd}
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Name == version {
			m.version = &crd.Spec.Versions[i]
			m.schema, _ = jsonplan.DocumentAt(record.Stored(), "spec", "versions", i, "schema", "openAPIV3Schema")
		}
	}
	if m.version == nil {
		return nil, nil
	}
	if m.schema == nil {
		if m.crd, err = crdOf(record); err != nil {
			return nil, err
		}
		if m.version, err = versionOf(m.crd, version); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *modelMaker) name(kind string) string {
	parts := strings.Split(m.crd.Spec.Group, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".") + "." + m.version.Name + "." + kind
}

func (m *modelMaker) add(models map[string]openapi.Schema, as form) error {
	kind, listKind := m.crd.Spec.Names.Kind, m.crd.Spec.Names.ListKind
	doc, err := m.object(as)
	if err != nil {
		return err
	}
	object, err := jsonplan.Marshal(doc)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	list, err := jsonplan.Marshal(m.list(as))
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	models[m.name(kind)] = openapi.Schema{Kind: kind, JSON: object, Uses: []string{metaModels + "ObjectMeta"}}
	models[m.name(listKind)] = openapi.Schema{Kind: listKind, ListOf: kind, JSON: list, Uses: []string{m.name(kind), metaModels + "ListMeta"}}
	return nil
}

// object is the model of the kind as a document.
func (m *modelMaker) object(as form) (map[string]any, error) {
	doc := m.schema
	if doc == nil {
		doc = map[string]any{"type": "object"}
	}
	if m.version.Schema != nil && m.version.Schema.OpenAPIV3Schema != nil {
		encoded, err := json.Marshal(m.version.Schema.OpenAPIV3Schema)
		if err != nil {
			return nil, fmt.Errorf("encode schema: %w", err)
		}
		doc = map[string]any{}
		if err := json.Unmarshal(encoded, &doc); err != nil {
			return nil, fmt.Errorf("read schema: %w", err)
		}
	}
	publish(doc, as)
	types := metav1.TypeMeta{}.SwaggerDoc()
	withMembers(doc, map[string]any{
		"apiVersion": described("string", types["apiVersion"]),
		"kind":       described("string", types["kind"]),
		"metadata":   reference("Standard object's metadata. More info: "+conventions+"#metadata", metaModels+"ObjectMeta", as),
	})
	m.mark(doc, m.crd.Spec.Names.Kind)
	return doc, nil
}

func (m *modelMaker) list(as form) map[string]any {
	types := metav1.TypeMeta{}.SwaggerDoc()
	doc := map[string]any{
		"type": "object", "description": m.crd.Spec.Names.ListKind + " is a list of " + m.crd.Spec.Names.Kind,
		"required": []any{"items"},
		"properties": map[string]any{
			"apiVersion": described("string", types["apiVersion"]),
			"kind":       described("string", types["kind"]),
			"metadata":   reference("Standard list metadata. More info: "+conventions+"#types-kinds", metaModels+"ListMeta", as),
			"items": map[string]any{
				"type": "array", "description": "List of " + m.crd.Spec.Names.Plural + ". More info: " + conventions,
				"items": map[string]any{"$ref": refOf(m.name(m.crd.Spec.Names.Kind), as)},
			},
		},
	}
	m.mark(doc, m.crd.Spec.Names.ListKind)
	return doc
}

// mark says of which kind a model is.
func (m *modelMaker) mark(doc map[string]any, kind string) {
	doc["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": m.crd.Spec.Group, "version": m.version.Name, "kind": kind}}
	if len(m.version.SelectableFields) == 0 {
		return
	}
	var fields []any
	for _, f := range m.version.SelectableFields {
		fields = append(fields, map[string]any{"fieldPath": strings.TrimPrefix(f.JSONPath, ".")})
	}
	doc["x-kubernetes-selectable-fields"] = fields
}

func described(jsonType, description string) map[string]any {
	return map[string]any{"type": jsonType, "description": description}
}

func refOf(model string, as form) string {
	if as == openAPIV3 {
		return "#/components/schemas/" + model
	}
	return "#/definitions/" + model
}

// reference refers to another model, with a description of its own.
func reference(description, model string, as form) map[string]any {
	ref := map[string]any{"$ref": refOf(model, as)}
	if as == openAPIV3 {
		return map[string]any{"description": description, "allOf": []any{ref}}
	}
	ref["description"] = description
	return ref
}

func withMembers(doc, members map[string]any) {
	have, _ := doc["properties"].(map[string]any)
	if have == nil {
		have = map[string]any{}
		doc["properties"] = have
	}
	for name, member := range members {
		have[name] = member
	}
}

// publish makes a structural schema one that clients of OpenAPI understand, in
// place.
func publish(doc map[string]any, as form) {
	each(doc, func(inner map[string]any) { publish(inner, as) })
	delete(doc, "externalDocs")
	if doc["x-kubernetes-int-or-string"] == true && as != openAPIV2 {
		delete(doc, "type")
		if _, said := doc["anyOf"]; !said {
			doc["anyOf"] = []any{map[string]any{"type": "integer"}, map[string]any{"type": "string"}}
		}
	}
	if doc["x-kubernetes-embedded-resource"] == true {
		publishEmbedded(doc, as)
	}
	if as != openAPIV2 {
		return
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf", "not"} {
		delete(doc, keyword)
	}
	if doc["nullable"] == true {
		for _, keyword := range []string{"nullable", "type", "items", "properties", "additionalProperties"} {
			delete(doc, keyword)
		}
	}
}

func publishEmbedded(doc map[string]any, as form) {
	withMembers(doc, map[string]any{
		"apiVersion": described("string", "apiVersion defines the versioned schema of this representation of an object. More info: "+conventions+"#resources"),
		"kind":       described("string", "kind is a string value representing the type of this object. In CamelCase. More info: "+conventions+"#types-kinds"),
		"metadata":   reference("Standard object's metadata. More info: "+conventions+"#metadata", metaModels+"ObjectMeta", as),
	})
	required, _ := doc["required"].([]any)
	for _, name := range []any{"kind", "apiVersion"} {
		if !slices.Contains(required, name) {
			required = append(required, name)
		}
	}
	doc["required"] = required
}

// each visits the schemas that say what is inside of a value.
func each(doc map[string]any, visit func(map[string]any)) {
	if members, ok := doc["properties"].(map[string]any); ok {
		for _, member := range members {
			if inner, ok := member.(map[string]any); ok {
				visit(inner)
			}
		}
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		if inner, ok := doc[keyword].(map[string]any); ok {
			visit(inner)
		}
	}
}
