package custom

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/codec/jsonplan"
	"mainstay.dev/mainstay/internal/endpoints/openapi"
	"mainstay.dev/mainstay/internal/storage"
)

const (
	metaModels  = "io.k8s.apimachinery.pkg.apis.meta.v1."
	conventions = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
)

// schemaTarget is the type of document that will contain a schema.
type schemaTarget int

const (
	v3Target    schemaTarget = iota
	v2Target                 // supports neither alternatives nor null
	mergeTarget              // contains only the keywords that affect merges, with v2 references
)

// Digest returns a hash that changes with the OpenAPI schemas or paths of a group version. It uses only
// the entries in memory.
func (s *Source) Digest(gv schema.GroupVersion) string {
	h := sha256.New()
	for _, e := range s.discoveredIn(gv) {
		fmt.Fprintf(h, "%s %s %d %v\n", e.name, e.uid, e.generation, e.accepted)
	}
	return fmt.Sprintf("%X", h.Sum(nil))
}

func (s *Source) discoveredIn(gv schema.GroupVersion) []*entry {
	var served []*entry
	for e := range s.current.Load().group(gv.Group) {
		if e.isDiscovered() && e.version(gv.Version) != nil {
			served = append(served, e)
		}
	}
	return served
}

// Schemas returns the OpenAPI schemas of a group version for v2 or v3, keyed by model name. It reads the stored
// definitions without a cache, and blocks until they are read or ctx ends. It omits definitions that are deleted
// during the call, and definitions whose schema cannot be converted, which it logs. The caller owns the result.
func (s *Source) Schemas(ctx context.Context, gv schema.GroupVersion, v2 bool) (map[string]openapi.Schema, error) {
	target := v3Target
	if v2 {
		target = v2Target
	}
	entries := s.discoveredIn(gv)
	models := make([]map[string]openapi.Schema, len(entries))
	var next atomic.Int64
	var group errgroup.Group
	for range min(len(entries), bulkWorkers()) {
		group.Go(func() error {
			writer := newSchemaWriter(target)
			for i := next.Add(1) - 1; i < int64(len(entries)); i = next.Add(1) - 1 {
				var err error
				if models[i], err = s.models(ctx, entries[i], gv.Version, writer); err != nil {
					return fmt.Errorf("OpenAPI schema of %s in version %s: %w", entries[i].name, gv.Version, err)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	all := map[string]openapi.Schema{}
	for _, m := range models {
		maps.Copy(all, m)
	}
	return all, nil
}

// bulkWorkers returns the number of goroutines for work on many definitions: GOMAXPROCS-1, so that one
// processor remains for requests.
func bulkWorkers() int { return max(1, runtime.GOMAXPROCS(0)-1) }

// models returns the schemas of one definition. It returns nil if the stored definition no longer exists or no
// longer has the version, or if its schema cannot be converted. One definition must not make the documents of
// all definitions unavailable.
func (s *Source) models(ctx context.Context, e *entry, version string, writer *schemaWriter) (map[string]openapi.Schema, error) {
	record, err := s.readRecord(ctx, e.name)
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := newModelBuilder(e, e.version(version), record)
	var models map[string]openapi.Schema
	if m != nil && err == nil {
		models, err = m.models(writer)
	}
	if err != nil {
		s.logger.Error("OpenAPI documents lack a custom resource", "definition", e.name, "version", version, "err", err)
		return nil, nil
	}
	return models, nil
}

// modelBuilder builds the models of the kind and of the list kind of a version.
type modelBuilder struct {
	group   string
	names   names
	version entryVersion
	// schema is a cursor over a JSON text that contains the schema of the version at offset at.
	schema *jsonplan.Cursor
	at     int
	// preservesUnknown is spec.preserveUnknownFields of an old definition.
	preservesUnknown bool
}

// newModelBuilder returns the builder of a version, or nil if the definition does not have the version. It
// decodes the definition only if the stored JSON does not have the expected form.
func newModelBuilder(e *entry, v *entryVersion, record *codec.Record) (*modelBuilder, error) {
	in, start := jsonplan.NewCursor(record.Stored())
	at := in.Seek(start, "spec", "versions", v.index)
	name, _ := in.Text(in.Seek(at, "name"))
	if at = in.Seek(at, "schema", "openAPIV3Schema"); name == v.name && in.At(at) == '{' {
		preservesUnknown := in.At(in.Seek(start, "spec", "preserveUnknownFields")) == 't'
		return &modelBuilder{group: e.group, names: e.requested, version: *v, schema: in, at: at, preservesUnknown: preservesUnknown}, nil
	}
	crd, err := decodeDefinition(record)
	if err != nil {
		return nil, err
	}
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Name == v.name {
			return modelBuilderOf(crd, &crd.Spec.Versions[i])
		}
	}
	return nil, nil
}

// modelBuilderOf returns the builder of a version of a decoded definition.
func modelBuilderOf(crd *apiextensionsv1.CustomResourceDefinition, version *apiextensionsv1.CustomResourceDefinitionVersion) (*modelBuilder, error) {
	encoded := []byte(`{"type":"object"}`)
	if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
		var err error
		if encoded, err = jsonplan.Marshal(version.Schema.OpenAPIV3Schema); err != nil {
			return nil, fmt.Errorf("encode schema: %w", err)
		}
	}
	m := &modelBuilder{group: crd.Spec.Group, names: namesOf(&crd.Spec.Names), version: newEntryVersion(version, 0), preservesUnknown: crd.Spec.PreserveUnknownFields}
	m.schema, m.at = jsonplan.NewCursor(encoded)
	return m, nil
}

func (m *modelBuilder) name(kind string) string {
	parts := strings.Split(m.group, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".") + "." + m.version.name + "." + kind
}

func (m *modelBuilder) models(writer *schemaWriter) (map[string]openapi.Schema, error) {
	kind, listKind := m.names.kind, m.names.listKind
	object, err := m.object(writer)
	if err != nil {
		return nil, err
	}
	list, err := jsonplan.Marshal(m.list(writer.target))
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return map[string]openapi.Schema{
		m.name(kind):     {Kind: kind, JSON: object, Uses: []string{metaModels + "ObjectMeta"}},
		m.name(listKind): {Kind: listKind, ListOf: kind, JSON: list, Uses: []string{m.name(kind), metaModels + "ListMeta"}},
	}, nil
}

// object returns the model of the kind.
func (m *modelBuilder) object(writer *schemaWriter) ([]byte, error) {
	marks := map[string]any{}
	m.setKind(marks, m.names.kind)
	encoded, err := jsonplan.Marshal(marks)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return writer.root(m.schema, m.at, m.preservesUnknown, encoded)
}

func (m *modelBuilder) list(target schemaTarget) map[string]any {
	types := metav1.TypeMeta{}.SwaggerDoc()
	doc := map[string]any{
		"type": "object", "description": m.names.listKind + " is a list of " + m.names.kind,
		"required": []any{"items"},
		"properties": map[string]any{
			"apiVersion": property("string", types["apiVersion"]),
			"kind":       property("string", types["kind"]),
			"metadata":   reference("Standard list metadata. More info: "+conventions+"#types-kinds", metaModels+"ListMeta", target),
			"items": map[string]any{
				"type": "array", "description": "List of " + m.names.plural + ". More info: " + conventions,
				"items": map[string]any{"$ref": refOf(m.name(m.names.kind), target)},
			},
		},
	}
	m.setKind(doc, m.names.listKind)
	return doc
}

// setKind sets the extensions of a model that contain its group, version and kind and the selectable fields.
func (m *modelBuilder) setKind(doc map[string]any, kind string) {
	doc["x-kubernetes-group-version-kind"] = []any{map[string]any{"group": m.group, "version": m.version.name, "kind": kind}}
	if len(m.version.selectable) == 0 {
		return
	}
	var fields []any
	for _, path := range m.version.selectable {
		fields = append(fields, map[string]any{"fieldPath": strings.TrimPrefix(path, ".")})
	}
	doc["x-kubernetes-selectable-fields"] = fields
}

func property(jsonType, description string) map[string]any {
	return map[string]any{"type": jsonType, "description": description}
}

func refOf(model string, target schemaTarget) string {
	if target == v3Target {
		return "#/components/schemas/" + model
	}
	return "#/definitions/" + model
}

// reference returns a reference to another model, with the given description.
func reference(description, model string, target schemaTarget) map[string]any {
	ref := map[string]any{"$ref": refOf(model, target)}
	if target == v3Target {
		return map[string]any{"description": description, "allOf": []any{ref}}
	}
	ref["description"] = description
	return ref
}
