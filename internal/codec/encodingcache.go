package codec

import (
	"container/list"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultEncodingCacheLimit is the default of EncodingCacheConfig.Limit, in bytes.
const DefaultEncodingCacheLimit = 256 << 20

// NoEncodingCacheLimit disables the limit: no encodings are evicted.
const NoEncodingCacheLimit = -1

// EncodingCacheConfig configures an EncodingCache.
type EncodingCacheConfig struct {
	// Limit is the maximum size of all cached encodings, in bytes. 0 selects
	// DefaultEncodingCacheLimit, and NoEncodingCacheLimit disables the limit.
	Limit int64
	// Registerer registers the metrics; nil disables them.
	Registerer prometheus.Registerer
}

// EncodingCache limits the memory of the encodings that records cache. It counts the encodings of a record
// from Record.Retain until Record.Release. At the limit, it evicts approximately the least recently used
// encodings (CLOCK algorithm); they are encoded again on demand. A nil *EncodingCache has no limit and no
// metrics. All methods are safe for concurrent use.
type EncodingCache struct {
	limit int64
	// bytes is the size of all encodings in the queue. It is written only while mu is held.
	bytes                   atomic.Int64
	hits, misses, evictions atomic.Uint64

	mu struct {
		sync.Mutex
		queue list.List // of *encoding; the front is examined next
	}
}

// encoding is a cached encoding of a record.
type encoding struct {
	data []byte
	// slot is the field of the record that points to this encoding.
	slot *atomic.Pointer[encoding]
	// used is set by each hit, and cleared when evictLocked moves the encoding to the back.
	used atomic.Bool
	// element is the position in EncodingCache.mu.queue; nil if the encoding is not counted.
	// EncodingCache.mu guards it.
	element *list.Element
}

// encodingOverhead is the fixed memory cost of a cached encoding, in bytes.
const encodingOverhead = 160

func (e *encoding) size() int64 { return int64(cap(e.data)) + encodingOverhead }

// NewEncodingCache returns an empty EncodingCache. It returns an error if the limit is invalid or
// if the metrics are already registered.
func NewEncodingCache(cfg EncodingCacheConfig) (*EncodingCache, error) {
	if cfg.Limit == 0 {
		cfg.Limit = DefaultEncodingCacheLimit
	}
	if cfg.Limit < NoEncodingCacheLimit {
		return nil, fmt.Errorf("encoding cache: Limit %d must not be negative", cfg.Limit)
	}
	m := &EncodingCache{limit: cfg.Limit}
	if cfg.Registerer != nil {
		if err := m.register(cfg.Registerer); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *EncodingCache) register(registerer prometheus.Registerer) error {
	counter := func(name, help string, value func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "mainstay_encoding_cache_" + name, Help: help},
			func() float64 { return float64(value()) })
	}
	gauge := func(name, help string, value func() int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "mainstay_encoding_cache_" + name, Help: help},
			func() float64 { return float64(value()) })
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		counter("hits_total", "Number of encodings that were found in the cache.", m.hits.Load),
		counter("misses_total", "Number of encodings that were not found in the cache.", m.misses.Load),
		counter("evictions_total", "Number of encodings that were evicted from the cache.", m.evictions.Load),
		gauge("bytes", "Size of the cached encodings, in bytes.", m.Bytes),
		gauge("limit_bytes", "Maximum size of the cache of encodings, in bytes; -1 is unlimited.", func() int64 { return m.limit }),
	} {
		errs = append(errs, registerer.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("register metrics of the encoding cache: %w", err)
	}
	return nil
}

// Bytes returns the size of the cached encodings of retained records. m must not be nil.
func (m *EncodingCache) Bytes() int64 { return m.bytes.Load() }

// hit records the use of a cached encoding.
func (m *EncodingCache) hit(e *encoding) {
	if m == nil {
		return
	}
	m.hits.Add(1)
	if !e.used.Load() { // avoids writes to a shared cache line
		e.used.Store(true)
	}
}

// miss records that an encoding was not cached.
func (m *EncodingCache) miss() {
	if m != nil {
		m.misses.Add(1)
	}
}

// hasRoom reports whether an encoding can be cached without evicting another one.
func (m *EncodingCache) hasRoom(size int) bool {
	return m == nil || m.limit == NoEncodingCacheLimit || m.bytes.Load()+int64(size)+encodingOverhead <= m.limit
}

// store caches data as an encoding of r. It has no effect if r was released or if data exceeds the
// limit.
func (m *EncodingCache) store(r *Record, holder *atomic.Pointer[encoding], data []byte) {
	e := &encoding{data: data, slot: holder}
	if m == nil {
		holder.Store(e)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.released {
		return
	}
	if r.owners > 0 && !m.addLocked(e) {
		return
	}
	holder.Store(e)
}

// addLocked adds an encoding to the queue, and evicts others as needed. It returns false if the
// encoding exceeds the limit.
func (m *EncodingCache) addLocked(e *encoding) bool {
	if m.limit != NoEncodingCacheLimit {
		if e.size() > m.limit {
			return false
		}
		for m.bytes.Load()+e.size() > m.limit {
			m.evictLocked()
		}
	}
	e.element = m.mu.queue.PushBack(e)
	m.bytes.Add(e.size())
	return true
}

// removeLocked removes an encoding from its record and from the queue.
func (m *EncodingCache) removeLocked(e *encoding) {
	e.slot.CompareAndSwap(e, nil)
	if e.element != nil {
		m.mu.queue.Remove(e.element)
		e.element = nil
		m.bytes.Add(-e.size())
	}
}

// evictLocked evicts one encoding. The queue must not be empty.
func (m *EncodingCache) evictLocked() {
	for {
		front := m.mu.queue.Front()
		e := front.Value.(*encoding)
		if e.used.Swap(false) {
			m.mu.queue.MoveToBack(front)
			continue
		}
		m.removeLocked(e)
		m.evictions.Add(1)
		return
	}
}

// EvictHalf evicts encodings until at most half of their current size is left. It is called when
// the process is short of memory. It has no effect on a nil *EncodingCache.
func (m *EncodingCache) EvictHalf() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for target := m.bytes.Load() / 2; m.bytes.Load() > target; {
		m.evictLocked()
	}
}

// Retain declares that a cache contains the record. The record's encodings then count toward the
// EncodingCache of its kind, which may evict them. Each call must be paired with a call to Release.
func (r *Record) Retain() {
	m := r.kind.EncodingCache
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r.owners++
	r.released = false
	if r.owners > 1 {
		return
	}
	for _, holder := range []*atomic.Pointer[encoding]{&r.json, &r.protobuf} {
		if e := holder.Load(); e != nil && !m.addLocked(e) {
			m.removeLocked(e)
		}
	}
}

// Release reverses a call of Retain. After the last call, the record drops its encodings and caches no new
// ones; a reader that still uses the record encodes it again.
func (r *Record) Release() {
	m := r.kind.EncodingCache
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.owners--; r.owners > 0 {
		return
	}
	r.released = true
	for _, holder := range []*atomic.Pointer[encoding]{&r.json, &r.protobuf} {
		if e := holder.Load(); e != nil {
			m.removeLocked(e)
		}
	}
}
