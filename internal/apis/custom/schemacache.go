package custom

import (
	"crypto/sha256"
	"sync"

	"mainstay.dev/mainstay/internal/cel/weakmap"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/codec/jsonplan"
)

// SchemaCache shares the compiled schemas of definitions with equal schemas between Sources, such as those of forks. Schemas
// are held by weak pointers, so unused ones are garbage-collected. A nil SchemaCache shares nothing; the zero value is ready
// for use. It is safe for concurrent use.
type SchemaCache struct {
	mu      sync.Mutex
	schemas weakmap.Map[schemaKey, compiled]
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

// get returns the compiled schema of a version of a definition, and compiles it if it is not cached.
func (c *SchemaCache) get(record *codec.Record, version string, compile func() (*compiled, error)) (*compiled, error) {
	if c == nil {
		return compile()
	}
	key, ok := schemaKeyOf(record, version)
	if !ok {
		return compile()
	}
	c.mu.Lock()
	existing := c.schemas.Get(key)
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
	if existing := c.schemas.Get(key); existing != nil {
		return existing, nil
	}
	c.schemas.Set(key, made)
	return made, nil
}
