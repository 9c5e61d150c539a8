package main

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// quietPeriod is how often allocations are sampled; the server is idle when it
	// allocated less than quietBytes in one period.
	quietPeriod = 5 * time.Second
	quietBytes  = 4 << 20
	// returnBytes is the allocation volume since the last return of memory that justifies another
	// collection, in bytes.
	returnBytes = 32 << 20
)

// laterPeriods are the numbers of periods after which memory is returned again: by then
// the server has dropped caches that are not used.
var laterPeriods = [...]int{8, 72} //nolint:gochecknoglobals // constant

// idleDetector detects when a server that was busy becomes idle.
type idleDetector struct {
	seen, returned uint64
	// periods since memory was given back after work, and how often later.
	periods, again int
}

// tick receives the total of allocated bytes every quietPeriod. It reports whether memory
// should be returned.
func (q *idleDetector) tick(allocated uint64) bool {
	busy := allocated-q.seen > quietBytes
	q.seen = allocated
	q.periods++
	switch {
	case busy:
		return false
	case allocated-q.returned >= returnBytes:
		q.periods, q.again = 0, 0
	case q.again < len(laterPeriods) && q.periods >= laterPeriods[q.again]:
		q.again++
	default:
		return false
	}
	q.returned = allocated
	return true
}

// returnMemory returns memory to the operating system when the server becomes idle, until
// ctx ends. The runtime by itself would keep twice heapFloor and more.
func returnMemory(ctx context.Context) {
	allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	ticker := time.NewTicker(quietPeriod)
	defer ticker.Stop()
	var q idleDetector
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		metrics.Read(allocated)
		if q.tick(allocated[0].Value.Uint64()) {
			debug.FreeOSMemory()
		}
	}
}
