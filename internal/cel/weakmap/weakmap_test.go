package weakmap

import (
	"runtime"
	"testing"
)

// TestMap checks that the map returns values that are in use, and removes the entries of unused values.
func TestMap(t *testing.T) {
	t.Parallel()
	var m Map[int, [64]byte]
	if m.Get(-1) != nil {
		t.Error("an empty map has a value")
	}
	used := new([64]byte)
	m.Set(-1, used)
	for i := range 10 * minSweep {
		m.Set(i, new([64]byte))
		if i%minSweep == 0 {
			runtime.GC()
		}
	}
	if m.Get(-1) != used {
		t.Error("a used value is missing")
	}
	if n := len(m.values); n > 4*minSweep {
		t.Errorf("the map has %d entries", n)
	}
	runtime.GC()
	if m.Get(0) != nil {
		t.Error("the map keeps an unused value in memory")
	}
	runtime.KeepAlive(used)
}
