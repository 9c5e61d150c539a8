package custom

import (
	"crypto/sha256"
	"strings"
	"sync"

	"mainstay.dev/mainstay/internal/cel/weakmap"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// SchemaCache shares compiled schemas and merge schemas between Sources whose definitions have equal schemas,
// such as the Sources of forks. It holds only weak pointers to them, so that unused schemas are
// garbage-collected. A nil SchemaCache shares nothing; the zero value is ready for use. It is safe for
// concurrent use.
type SchemaCache struct {
	compiled weakCache[schemaKey, compiled]
	merge    weakCache[mergeKey, mergeSchema]
}

// schemaKey is the SHA-256 of a schema and of the fields of its definition that compile uses.
type schemaKey [sha256.Size]byte

// schemaKeyOf returns the key of a version of a stored definition. It returns false if the version has no schema, or if the
// stored JSON does not have the expected form.
func schemaKeyOf(record *codec.Record, version string) (schemaKey, bool) {
	in, start := jsonplan.NewCursor(record.Stored())
	for i := 0; ; i++ {
		at := in.Seek(start, "spec", "versions", i)
		if in.At(at) != '{' {
			return schemaKey{}, false
		}
		if name, _ := in.Text(in.Seek(at, "name")); name != version {
			continue
		}
		if at = in.Seek(at, "schema", "openAPIV3Schema"); in.At(at) != '{' {
			return schemaKey{}, false
		}
		text := in.Raw(at, in.Skip(at))
		preserveUnknown := in.At(in.Seek(start, "spec", "preserveUnknownFields"))
		return sha256.Sum256(append([]byte(text), preserveUnknown)), true
	}
}

// mergeKey identifies a merge schema. It includes the names of the kind, because the merge schema contains
// them.
type mergeKey struct {
	schema               schemaKey
	group, version, kind string
}

// mergeKeyOf is like schemaKeyOf, for merge schemas. It reads the names from the record, which can be newer
// than the handler.
func mergeKeyOf(record *codec.Record, version string) (key mergeKey, ok bool) {
	if key.schema, ok = schemaKeyOf(record, version); !ok {
		return mergeKey{}, false
	}
	in, start := jsonplan.NewCursor(record.Stored())
	group, _ := in.Text(in.Seek(start, "spec", "group"))
	kind, _ := in.Text(in.Seek(start, "spec", "names", "kind"))
	key.group, key.version, key.kind = strings.Clone(group), strings.Clone(version), strings.Clone(kind)
	return key, group != "" && kind != ""
}

// compiledSchema returns the compiled schema of a version of a definition, and compiles it if it is not cached.
func (c *SchemaCache) compiledSchema(record *codec.Record, version string, compile func() (*compiled, error)) (*compiled, error) {
	if c == nil {
		return compile()
	}
	key, ok := schemaKeyOf(record, version)
	if !ok {
		return compile()
	}
	return c.compiled.get(key, compile)
}

// mergeSchema returns the merge schema of a version of a definition, and creates it if it is not cached.
func (c *SchemaCache) mergeSchema(record *codec.Record, version string, create func() (*mergeSchema, error)) (*mergeSchema, error) {
	if c == nil {
		return create()
	}
	key, ok := mergeKeyOf(record, version)
	if !ok {
		return create()
	}
	return c.merge.get(key, create)
}

// weakCache caches weak pointers to values. The zero value is empty. It is safe for concurrent use.
type weakCache[K comparable, V any] struct {
	mu     sync.Mutex
	values weakmap.Map[K, V]
}

// get returns the value of a key, and creates it if it is not cached. Concurrent callers may each create a
// value, but all receive the same one.
func (c *weakCache[K, V]) get(key K, create func() (*V, error)) (*V, error) {
	c.mu.Lock()
	existing := c.values.Get(key)
	c.mu.Unlock()
	if existing != nil {
		return existing, nil
	}
	made, err := create() // without the lock, because create takes milliseconds
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if existing := c.values.Get(key); existing != nil {
		return existing, nil
	}
	c.values.Set(key, made)
	return made, nil
}
