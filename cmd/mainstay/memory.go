package main

import (
	"context"
	"log/slog"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// quietPeriod is how often the server is looked at; it is quiet when it
	// allocated less than quietBytes in one.
	quietPeriod = 5 * time.Second
	quietBytes  = 4 << 20
	// returnBytes is what must have been allocated since memory was last given
	// back for it to be worth a collection.
	returnBytes = 32 << 20
)

// laterPeriods is how many periods after memory was given back that is done again: what
// the server itself lets go of when it is not used, a while later, goes then.
var laterPeriods = [...]int{8, 72} //nolint:gochecknoglobals // constant

// idleDetector finds the moments in which a server that was busy is so no longer.
type idleDetector struct {
	seen, returned uint64
	// periods since memory was given back after work, and how often later.
	periods, again int
}

// tick is told every quietPeriod how many bytes were ever allocated. It tells
// whether memory should be given back.
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

// returnMemory gives the memory of a burst of work back to the operating system
// once the work is done, until ctx ends. The runtime by itself would keep as much
// as the next burst may need: twice heapFloor and more.
func returnMemory(ctx context.Context, logger *slog.Logger) {
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
		if !q.tick(allocated[0].Value.Uint64()) {
			continue
		}
		debug.FreeOSMemory()
		if err := releaseCode(); err != nil {
			logger.Debug("code that is not needed any more stays in memory", "err", err)
		}
	}
}
