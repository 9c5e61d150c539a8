package custom

import (
	"errors"
	"fmt"
	"runtime"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
)

// definitionRecord returns a stored definition with the given version, after a version v0 without a schema.
func definitionRecord(name, version, preserveUnknown, schema string) *codec.Record {
	text := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":%[1]q},"spec":{"group":"example.com","names":{"kind":%[1]q},"preserveUnknownFields":%[2]s,"versions":[{"name":"v0"},{"name":%[3]q,"schema":%[4]s}]}}`, name, preserveUnknown, version, schema)
	return codec.NewRecord(definitionKind(), types.NamespacedName{Name: name}, []byte(text), 1)
}

func TestSchemaCache(t *testing.T) {
	t.Parallel()
	const object = `{"openAPIV3Schema":{"type":"object"}}`
	var cache SchemaCache
	compiles := 0
	get := func(c *SchemaCache, record *codec.Record, version string) *compiled {
		t.Helper()
		schema, err := c.compiledSchema(record, version, func() (*compiled, error) { compiles++; return &compiled{}, nil })
		if err != nil {
			t.Fatal(err)
		}
		return schema
	}
	first := get(&cache, definitionRecord("a", "v1", "false", object), "v1")
	if get(&cache, definitionRecord("b", "v2", "false", object), "v2") != first || compiles != 1 {
		t.Errorf("equal schemas were compiled %d times", compiles)
	}
	for name, tt := range map[string]struct {
		cache   *SchemaCache
		record  *codec.Record
		version string
	}{
		"another schema":   {&cache, definitionRecord("a", "v1", "false", `{"openAPIV3Schema":{"type":"object","description":"x"}}`), "v1"},
		"unknown fields":   {&cache, definitionRecord("a", "v1", "true", object), "v1"},
		"without a schema": {&cache, definitionRecord("a", "v1", "false", `{}`), "v1"},
		"another version":  {&cache, definitionRecord("a", "v1", "false", object), "v3"},
		"no cache":         {nil, definitionRecord("a", "v1", "false", object), "v1"},
	} {
		if get(tt.cache, tt.record, tt.version) == first {
			t.Errorf("%s: the schema is shared", name)
		}
	}
	runtime.KeepAlive(first)

	failure := errors.New("invalid schema")
	if _, err := cache.compiledSchema(definitionRecord("a", "v1", "false", `{"openAPIV3Schema":{"type":"x"}}`), "v1", func() (*compiled, error) { return nil, failure }); !errors.Is(err, failure) {
		t.Errorf("compile an invalid schema: error %v, want %v", err, failure)
	}
}

// TestSharedMergeSchema checks that definitions share a merge schema if their schemas and the names of their kinds are equal.
func TestSharedMergeSchema(t *testing.T) {
	t.Parallel()
	const object = `{"openAPIV3Schema":{"type":"object"}}`
	var cache SchemaCache
	creations := 0
	get := func(c *SchemaCache, record *codec.Record, version string) *mergeSchema {
		t.Helper()
		schema, err := c.mergeSchema(record, version, func() (*mergeSchema, error) {
			creations++
			return newMergeSchema(record, version)
		})
		if err != nil {
			t.Fatal(err)
		}
		return schema
	}
	first := get(&cache, definitionRecord("a", "v1", "false", object), "v1")
	if get(&cache, definitionRecord("a", "v1", "false", object), "v1") != first || creations != 1 {
		t.Errorf("equal merge schemas were created %d times", creations)
	}
	for name, tt := range map[string]struct {
		cache   *SchemaCache
		record  *codec.Record
		version string
	}{
		"another schema":  {&cache, definitionRecord("a", "v1", "false", `{"openAPIV3Schema":{"type":"object","description":"x"}}`), "v1"},
		"another kind":    {&cache, definitionRecord("b", "v1", "false", object), "v1"},
		"another version": {&cache, definitionRecord("a", "v2", "false", object), "v2"},
		"unknown fields":  {&cache, definitionRecord("a", "v1", "true", object), "v1"},
		"no cache":        {nil, definitionRecord("a", "v1", "false", object), "v1"},
	} {
		if get(tt.cache, tt.record, tt.version) == first {
			t.Errorf("%s: the merge schema is shared", name)
		}
	}
	runtime.KeepAlive(first)
}
