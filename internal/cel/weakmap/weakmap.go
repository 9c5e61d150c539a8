// Package weakmap implements a map that does not keep its values in memory.
package weakmap

import "weak"

// Map is a map with weak pointers to its values. The entry of a garbage-collected value is removed later, when the map
// has grown. The zero value is empty. It is not safe for concurrent use.
type Map[K comparable, V any] struct {
	values map[K]weak.Pointer[V]
	// sweepAt is the number of entries at which the entries of collected values are removed.
	sweepAt int
}

// minSweep is the minimum of sweepAt.
const minSweep = 256

// Get returns the value of a key, or nil if there is none, or if it was garbage-collected.
func (m *Map[K, V]) Get(key K) *V { return m.values[key].Value() }

// Set sets the value of a key.
func (m *Map[K, V]) Set(key K, value *V) {
	if m.values == nil {
		m.values = map[K]weak.Pointer[V]{}
	}
	if len(m.values) >= max(m.sweepAt, minSweep) {
		m.sweep()
	}
	m.values[key] = weak.Make(value)
}

func (m *Map[K, V]) sweep() {
	for key, value := range m.values {
		if value.Value() == nil {
			delete(m.values, key)
		}
	}
	m.sweepAt = 2 * len(m.values)
}
