package memory

import "runtime/metrics"

// liveBytes is the metric of the live heap after the last collection.
const liveBytes = "/gc/heap/live:bytes"

// Pressed returns a function that reports whether the process is close to a limit in bytes; nil
// without a limit (0). untouched is the size of allocations that use no memory. The function takes
// a microsecond and is safe for concurrent use.
func Pressed(limit, untouched int64) func() bool {
	if limit == 0 {
		return nil
	}
	return func() bool { return live() >= uint64(limit/100*pressedPercent+untouched) }
}

// live returns the live heap after the last collection, in bytes.
func live() uint64 {
	sample := []metrics.Sample{{Name: liveBytes}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
