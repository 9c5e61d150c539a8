package codec

import (
	"container/list"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultMemoryLimit is the default of MemoryConfig.Limit, in bytes.
const DefaultMemoryLimit = 256 << 20

// NoMemoryLimit disables the limit: no encodings are evicted.
const NoMemoryLimit = -1

// MemoryConfig configures a Memory.
type MemoryConfig struct {
	// Limit is the maximum size of all cached encodings, in bytes. 0 selects DefaultMemoryLimit,
	// and NoMemoryLimit disables the limit.
	Limit int64
	// Registerer registers the metrics; nil disables them.
	Registerer prometheus.Registerer
}

// Memory limits the memory of encodings that records cache. It counts the encodings of retained
// records (Record.Retain), from their creation until the record is released. If the limit is
// reached, it evicts approximately the least recently used encodings (the CLOCK algorithm); they
// are encoded again on demand. A nil *Memory has no limit and no metrics. All methods are safe for
// concurrent use.
type Memory struct {
	limit int64
	// bytes is the size of all encodings in the queue. It is changed with mu held.
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
	// holder is the record's pointer to this encoding.
	holder *atomic.Pointer[encoding]
	// used is set by each hit, and cleared when evictLocked moves the encoding to the back.
	used atomic.Bool
	// place is the element of Memory.mu.queue, nil if the encoding is not counted. Memory.mu guards
	// it.
	place *list.Element
}

// encodingOverhead is the fixed memory cost of a cached encoding, in bytes.
const encodingOverhead = 160

func (e *encoding) size() int64 { return int64(cap(e.data)) + encodingOverhead }

// NewMemory returns an empty Memory. It returns an error for an invalid limit, and if the metrics
// are already registered.
func NewMemory(cfg MemoryConfig) (*Memory, error) {
	if cfg.Limit == 0 {
		cfg.Limit = DefaultMemoryLimit
	}
	if cfg.Limit < NoMemoryLimit {
		return nil, fmt.Errorf("memory of encodings: Limit %d must not be negative", cfg.Limit)
	}
	m := &Memory{limit: cfg.Limit}
	if cfg.Registerer != nil {
		if err := m.register(cfg.Registerer); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Memory) register(registerer prometheus.Registerer) error {
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
		return fmt.Errorf("register metrics of encodings: %w", err)
	}
	return nil
}

// Bytes returns the size of the cached encodings of retained records.
func (m *Memory) Bytes() int64 { return m.bytes.Load() }

// hit records the use of a cached encoding.
func (m *Memory) hit(e *encoding) {
	if m == nil {
		return
	}
	m.hits.Add(1)
	if !e.used.Load() { // avoids writes to a shared cache line
		e.used.Store(true)
	}
}

// miss records that an encoding was not cached.
func (m *Memory) miss() {
	if m != nil {
		m.misses.Add(1)
	}
}

// hasRoom reports whether an encoding can be cached without evicting another one.
func (m *Memory) hasRoom(size int) bool {
	return m == nil || m.limit == NoMemoryLimit || m.bytes.Load()+int64(size)+encodingOverhead <= m.limit
}

// keep caches data as an encoding of r. It has no effect if r was released, or if data exceeds the
// limit.
func (m *Memory) keep(r *Record, holder *atomic.Pointer[encoding], data []byte) {
	e := &encoding{data: data, holder: holder}
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
func (m *Memory) addLocked(e *encoding) bool {
	if m.limit != NoMemoryLimit {
		if e.size() > m.limit {
			return false
		}
		for m.bytes.Load()+e.size() > m.limit {
			m.evictLocked()
		}
	}
	e.place = m.mu.queue.PushBack(e)
	m.bytes.Add(e.size())
	return true
}

// removeLocked removes an encoding from its record and from the queue.
func (m *Memory) removeLocked(e *encoding) {
	e.holder.CompareAndSwap(e, nil)
	if e.place != nil {
		m.mu.queue.Remove(e.place)
		e.place = nil
		m.bytes.Add(-e.size())
	}
}

// evictLocked evicts one encoding. The queue must not be empty.
func (m *Memory) evictLocked() {
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

// EvictHalf evicts encodings until at most half of their current size is left. It is called while
// the process is short of memory.
func (m *Memory) EvictHalf() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for target := m.bytes.Load() / 2; m.bytes.Load() > target; {
		m.evictLocked()
	}
}

// Retain declares that a cache contains the record: its encodings count for the Memory of its kind,
// which may evict them. Each call needs a call of Release.
func (r *Record) Retain() {
	m := r.kind.Memory
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

// Release reverses a call of Retain. After the last call, the record has no cached encodings and
// caches no further ones, so a reader that still uses the record encodes it again.
func (r *Record) Release() {
	m := r.kind.Memory
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
