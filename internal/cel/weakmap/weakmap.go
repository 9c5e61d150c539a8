// Package weakmap implements a map that does not keep its values in memory.
package weakmap

import "weak"

// Map is a map with weak pointers to its values. The entry of a value that was garbage-collected is removed
// later, by a call of Set after the map has grown. The zero value is empty. A Map is not safe for concurrent
// use.
type Map[K comparable, V any] struct {
	values map[K]weak.Pointer[V]
	// sweepAt is the number of entries at which Set removes the entries of garbage-collected values.
	sweepAt int
}

// minSweep is the minimum value of sweepAt.
const minSweep = 256

// Get returns the value of a key. It returns nil if the key has no value or if the value was garbage-collected.
func (m *Map[K, V]) Get(key K) *V { return m.values[key].Value() }

// Set sets the value of a key. It does not keep the value in memory.
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
