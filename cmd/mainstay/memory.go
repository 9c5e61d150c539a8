package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// samplePeriod is the interval at which allocations are sampled. The server is idle if it
	// allocates less than idleBytes in a period.
	samplePeriod = 5 * time.Second
	idleBytes    = 4 << 20
	// minReturnBytes is the minimum amount of allocations, in bytes, between two returns of memory,
	// because each return runs a garbage collection.
	minReturnBytes = 32 << 20
)

// repeatPeriods contains the numbers of idle periods after which memory is returned again, because
// the server drops unused caches in the meantime.
var repeatPeriods = [...]int{8, 72} //nolint:gochecknoglobals // constant

// idleDetector detects when a server that was busy becomes idle.
type idleDetector struct {
	// seen is the total of allocated bytes at the last sample, returned the total at the last
	// return of memory.
	seen, returned uint64
	// periods is the number of periods since the first return of memory after work, repeats the number of
	// additional returns since then.
	periods, repeats int
}

// tick reports whether memory should be returned to the operating system. It must be called every
// samplePeriod with the total of allocated bytes.
func (d *idleDetector) tick(allocated uint64) bool {
	busy := allocated-d.seen > idleBytes
	d.seen = allocated
	d.periods++
	switch {
	case busy:
		return false
	case allocated-d.returned >= minReturnBytes:
		d.periods, d.repeats = 0, 0
	case d.repeats < len(repeatPeriods) && d.periods >= repeatPeriods[d.repeats]:
		d.repeats++
	default:
		return false
	}
	d.returned = allocated
	return true
}

// returnMemory returns memory to the operating system when the server becomes idle, until ctx ends.
// Without it, the runtime would keep the memory of a burst for minutes.
func returnMemory(ctx context.Context) {
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	ticker := time.NewTicker(samplePeriod)
	defer ticker.Stop()
	var d idleDetector
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(allocated)
		if d.tick(allocated[0].Value.Uint64()) {
			debug.FreeOSMemory()
		}
	}
}
