package memory

import "runtime/metrics"

// liveBytes is the runtime metric for the size of the live heap after the last garbage collection.
const liveBytes = "/gc/heap/live:bytes"

// PressureFunc returns a function that reports whether the live heap uses at least 70 % of limit, which is
// in bytes. It returns nil if limit is 0. The returned function takes about a microsecond and is safe for
// concurrent use.
func PressureFunc(limit int64) func() bool {
	if limit == 0 {
		return nil
	}
	return func() bool { return live() >= uint64(limit/100*pressedPercent) }
}

// live returns the size of the live heap after the last garbage collection, in bytes.
func live() uint64 {
	sample := []metrics.Sample{{Name: liveBytes}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
