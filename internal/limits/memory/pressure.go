package memory

import "runtime/metrics"

// liveBytes is the metric of what the last collection left.
const liveBytes = "/gc/heap/live:bytes"

// Pressed returns what reports whether the process comes near a limit, in bytes; nil where
// there is none (0). Of what is allocated, untouched bytes take no memory. It costs a
// microsecond, and may be called concurrently.
func Pressed(limit, untouched int64) func() bool {
	if limit == 0 {
		return nil
	}
	return func() bool { return live() >= uint64(limit/100*pressedPercent+untouched) }
}

// live is what the last collection left, in bytes.
func live() uint64 {
	sample := []metrics.Sample{{Name: liveBytes}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
