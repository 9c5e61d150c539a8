package custom

import (
	"crypto/sha256"
	"sync"
	"weak"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// SchemaCache shares the compiled schemas of definitions with equal schemas between Sources, such as those of forks. Schemas
// are held by weak pointers, so unused ones are garbage-collected. A nil SchemaCache shares nothing; the zero value is ready
// for use. It is safe for concurrent use.
type SchemaCache struct {
	mu      sync.Mutex
	schemas map[schemaKey]weak.Pointer[compiled]
	// sweepAt is the number of entries at which the entries of collected schemas are removed.
	sweepAt int
}

// schemaKey is the SHA-256 of a schema and of the fields of its definition that compile uses.
type schemaKey [sha256.Size]byte

// minSchemaSweep is the minimum of SchemaCache.sweepAt.
const minSchemaSweep = 256

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

// get returns the compiled schema of a version of a definition, and compiles it if it is not cached.
func (c *SchemaCache) get(record *codec.Record, version string, compile func() (*compiled, error)) (*compiled, error) {
	key, ok := schemaKeyOf(record, version)
	if c == nil || !ok {
		return compile()
	}
	c.mu.Lock()
	existing := c.schemas[key].Value()
	c.mu.Unlock()
	if existing != nil {
		return existing, nil
	}
	made, err := compile() // without the lock, because it takes milliseconds
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if existing := c.schemas[key].Value(); existing != nil {
		return existing, nil
	}
	c.sweepLocked()
	c.schemas[key] = weak.Make(made)
	return made, nil
}

// sweepLocked removes the entries of collected schemas, if there are many entries.
func (c *SchemaCache) sweepLocked() {
	if c.schemas == nil {
		c.schemas = map[schemaKey]weak.Pointer[compiled]{}
	}
	if len(c.schemas) < max(c.sweepAt, minSchemaSweep) {
		return
	}
	for key, schema := range c.schemas {
		if schema.Value() == nil {
			delete(c.schemas, key)
		}
	}
	c.sweepAt = 2 * len(c.schemas)
}
