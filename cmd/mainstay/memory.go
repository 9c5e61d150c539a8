package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// samplePeriod is the interval at which the total of allocated bytes is read. The server is idle if it
	// allocates at most idleBytes in a period.
	samplePeriod = 5 * time.Second
	idleBytes    = 4 << 20
	// minReturnBytes is the minimum number of bytes that must have been allocated since memory was last
	// returned, because each return runs a garbage collection.
	minReturnBytes = 32 << 20
)

// repeatPeriods contains the numbers of idle periods after which memory is returned again, because the server
// drops unused caches in the meantime.
var repeatPeriods = [...]int{8, 72} //nolint:gochecknoglobals // constant

// idleDetector detects when a server becomes idle after it was busy.
type idleDetector struct {
	// seen is the total of allocated bytes at the last sample. returned is the total when memory was last
	// returned.
	seen, returned uint64
	// periods is the number of periods since the first return of memory after the server was busy. repeats is
	// the number of additional returns since then.
	periods, repeats int
}

// tick reports whether memory should be returned to the operating system. The caller must call it every
// samplePeriod with the total number of allocated bytes.
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

// returnMemory returns memory to the operating system whenever the server becomes idle, until ctx ends. Without
// it, the Go runtime would keep the memory of a burst for minutes.
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
