package ownership

import (
	"reflect"
	"sync"
)

// A Cache caches parsed sets of managed fields by their encoding, because similar objects with the same
// managers have the same sets. It also contains the plans of Go types. The kinds of several control planes
// can share a Cache. The zero value is ready for use. It is safe for concurrent use.
type Cache struct {
	plans sync.Map // planCacheKey to compiledPlan

	mu sync.Mutex
	// recent contains the entries that were used since recent was last full; older contains the entries that
	// were used before. Both are guarded by mu.
	recent, older map[cacheKey]*fieldSet
	// size is the total length of the encoded sets in recent, in bytes. Guarded by mu.
	size int
}

// maxCached is the maximum total size of the encoded sets in each half of a cache, in bytes. A parsed set
// uses about ten times as much memory.
const maxCached = 256 << 10

// planCacheKey identifies a plan. Built-in kinds have the schemas of the shared TypeConverter, so control
// planes can share their plans.
type planCacheKey struct {
	schema kindSchema
	goType reflect.Type
}

// compiledPlan is the result of compile. It is immutable.
type compiledPlan struct {
	plan      *plan
	documents bool
}

// compile returns the plan of a Go type. Concurrent calls might compile the same plan twice.
func (c *Cache) compile(s kindSchema, goType reflect.Type) (_ *plan, documents bool) {
	key := planCacheKey{s, goType}
	if known, ok := c.plans.Load(key); ok {
		found := known.(compiledPlan)
		return found.plan, found.documents
	}
	made, documents := compile(s, goType)
	c.plans.Store(key, compiledPlan{made, documents})
	return made, documents
}

type cacheKey struct {
	schema kindSchema
	text   string
}

func (c *Cache) get(s kindSchema, raw []byte) *fieldSet {
	c.mu.Lock()
	defer c.mu.Unlock()
	if set := c.recent[cacheKey{s, string(raw)}]; set != nil {
		return set
	}
	set := c.older[cacheKey{s, string(raw)}]
	if set != nil {
		c.putLocked(cacheKey{s, string(raw)}, set)
	}
	return set
}

func (c *Cache) put(s kindSchema, raw []byte, set *fieldSet) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putLocked(cacheKey{s, string(raw)}, set)
}

func (c *Cache) putLocked(key cacheKey, set *fieldSet) {
	if c.recent == nil || c.size+len(key.text) > maxCached {
		c.older, c.recent, c.size = c.recent, map[cacheKey]*fieldSet{}, 0
	}
	c.recent[key] = set
	c.size += len(key.text)
}
