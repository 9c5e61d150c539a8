package codec

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultMemoryLimit is the default of MemoryConfig.Limit, in bytes.
const DefaultMemoryLimit = 256 << 20

// NoMemoryLimit remembers every encoding for as long as its record lives.
const NoMemoryLimit = -1

// MemoryConfig describes a Memory.
type MemoryConfig struct {
	// Limit is in bytes; 0 means DefaultMemoryLimit, and NoMemoryLimit disables the limit.
	Limit int64
	// Pressed reports whether the process is short of memory: half of the cache is then evicted
	// after each garbage collection. nil means never.
	Pressed func() bool
	// Registerer registers the metrics; nil disables them.
	Registerer prometheus.Registerer
}

// Memory is a server's budget for encodings that records cache. It evicts approximately the least
// recently used ones, which are computed again on demand. It is safe for concurrent use. A nil
// *Memory has no limit and no metrics. The eviction queue uses the CLOCK algorithm: an encoding
// that was used since its last examination moves to the end, any other is evicted. The queue has
// weak references, so the garbage collector frees the encodings of dead records; their entries are
// removed when space is needed, once after each garbage collection. An explicit release would save
// a microsecond per encoding, but caches, snapshots, pages, watches and responses share records, so
// no code can detect the last reference.
type Memory struct {
	limit   int64
	pressed func() bool // nil: never
	// bytes is the accounted size of the queue.
	bytes atomic.Int64
	// collected: there was a garbage collection since the queue was swept.
	collected atomic.Bool

	hits              [stripes]stripe
	next              atomic.Uint32 // stripe of the next encoding
	misses, evictions atomic.Uint64

	mu struct {
		sync.Mutex
		// queue is a ring of which n places are taken, from first on.
		queue    []place
		first, n int
	}
}

// place is the entry of an encoding in the queue.
type place struct {
	encoding weak.Pointer[encoding]
	size     int64
}

// encoding is a cached encoding of a record.
type encoding struct {
	data []byte
	// holder is the record's pointer to this encoding.
	holder *atomic.Pointer[encoding]
	// used since the queue last looked.
	used   atomic.Bool
	stripe uint8
}

// encodingOverhead is the fixed memory cost of a cached encoding, in bytes.
const encodingOverhead = 160

// stripe is a counter that shares no cache line with another one.
type stripe struct {
	n atomic.Uint64
	_ [56]byte
}

const stripes = 32

// NewMemory returns a Memory.
func NewMemory(cfg MemoryConfig) (*Memory, error) {
	if cfg.Limit == 0 {
		cfg.Limit = DefaultMemoryLimit
	}
	if cfg.Limit < NoMemoryLimit {
		return nil, fmt.Errorf("memory of encodings: Limit %d must not be negative", cfg.Limit)
	}
	m := &Memory{limit: cfg.Limit, pressed: cfg.Pressed}
	if cfg.Registerer != nil {
		if err := m.register(cfg.Registerer); err != nil {
			return nil, err
		}
	}
	m.watchCollections()
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
		counter("hits_total", "Number of encodings that were found in the cache.", m.hitCount),
		counter("misses_total", "Encodings of objects that had to be made.", m.misses.Load),
		counter("evictions_total", "Encodings of objects that were forgotten to make room.", m.evictions.Load),
		gauge("bytes", "Size of the encodings of objects that are at hand.", m.Bytes),
		gauge("limit_bytes", "Maximum size of the cache of encodings, in bytes; -1 is unlimited.", func() int64 { return m.limit }),
	} {
		errs = append(errs, registerer.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("register metrics of encodings: %w", err)
	}
	return nil
}

// Bytes returns the size of the cached encodings.
func (m *Memory) Bytes() int64 {
	m.sweep()
	return m.bytes.Load()
}

func (m *Memory) hitCount() uint64 {
	var sum uint64
	for i := range m.hits {
		sum += m.hits[i].n.Load()
	}
	return sum
}

// hit counts the use of a cached encoding.
func (m *Memory) hit(e *encoding) {
	if m == nil {
		return
	}
	m.hits[e.stripe].n.Add(1)
	if !e.used.Load() {
		e.used.Store(true)
	}
}

// miss counts an encoding that had to be made.
func (m *Memory) miss() {
	if m != nil {
		m.misses.Add(1)
	}
}

// hasRoom reports whether an encoding can be remembered without another one being
// forgotten.
func (m *Memory) hasRoom(size int) bool {
	if m == nil || m.limit == NoMemoryLimit {
		return true
	}
	enough := func() bool { return m.bytes.Load()+int64(size)+encodingOverhead <= m.limit }
	if enough() {
		return true
	}
	m.sweep()
	return enough()
}

// keep makes holder point to an encoding of data, for as long as there is room
// for it.
func (m *Memory) keep(holder *atomic.Pointer[encoding], data []byte) {
	e := &encoding{data: data, holder: holder}
	if m == nil {
		holder.Store(e)
		return
	}
	size := int64(cap(data)) + encodingOverhead
	if m.limit != NoMemoryLimit && size > m.limit {
		return
	}
	e.stripe = uint8(m.next.Add(1) % stripes)
	if m.limit != NoMemoryLimit && m.bytes.Load()+size > m.limit {
		m.sweep()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.limit != NoMemoryLimit && m.bytes.Load()+size > m.limit {
		m.evictLocked()
	}
	m.bytes.Add(size)
	m.pushLocked(place{weak.Make(e), size})
	holder.Store(e)
}

// evictLocked forgets one encoding. There is one.
func (m *Memory) evictLocked() {
	for {
		p := m.popLocked()
		e := p.encoding.Value()
		if e != nil && e.used.Swap(false) {
			m.pushLocked(p)
			continue
		}
		m.bytes.Add(-p.size)
		if e != nil {
			e.holder.CompareAndSwap(e, nil)
			m.evictions.Add(1)
		}
		return
	}
}

func (m *Memory) pushLocked(p place) {
	if m.mu.n == len(m.mu.queue) {
		queue := make([]place, max(64, 2*m.mu.n))
		copied := copy(queue, m.mu.queue[m.mu.first:])
		copy(queue[copied:], m.mu.queue[:m.mu.first])
		m.mu.queue, m.mu.first = queue, 0
	}
	m.mu.queue[(m.mu.first+m.mu.n)%len(m.mu.queue)] = p
	m.mu.n++
}

func (m *Memory) popLocked() place {
	p := m.mu.queue[m.mu.first]
	m.mu.queue[m.mu.first] = place{}
	m.mu.first = (m.mu.first + 1) % len(m.mu.queue)
	m.mu.n--
	return p
}

// sweep clears the places of encodings that died since it was last called.
func (m *Memory) sweep() {
	if !m.collected.Swap(false) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for range m.mu.n {
		p := m.popLocked()
		if p.encoding.Value() == nil {
			m.bytes.Add(-p.size)
			continue
		}
		m.pushLocked(p)
	}
}

// relieve evicts half of the encodings if the process is short of memory.
func (m *Memory) relieve() {
	if m.pressed == nil || !m.pressed() {
		return
	}
	m.sweep()
	m.mu.Lock()
	defer m.mu.Unlock()
	for target := m.bytes.Load() / 2; m.bytes.Load() > target; {
		m.evictLocked()
	}
}

// watchCollections counts garbage collections, with an object that each collection finalizes, until
// the Memory itself is collected.
func (m *Memory) watchCollections() {
	canary := &struct{ _ [2]*int }{}
	runtime.AddCleanup(canary, func(held weak.Pointer[Memory]) {
		if m := held.Value(); m != nil {
			m.collected.Store(true)
			m.relieve()
			m.watchCollections()
		}
	}, weak.Make(m))
}
