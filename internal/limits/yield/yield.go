// Package yield keeps the server responsive while it processes a burst of requests.
//
// Go's scheduler prefers goroutines that a running goroutine has made runnable to goroutines in the global queue.
// If requests wait for a semaphore, the end of each request makes the next one runnable. The goroutines of new
// requests are in the global queue, because the network is polled in the background while the processors are busy,
// so they would wait until the end of the burst. A goroutine that calls runtime.Gosched waits behind them.
//
// The build tag noyield disables the package (ADR 34).
package yield

import "runtime"

// ToNewRequests lets requests that have arrived start before the calling goroutine continues. It takes less than a
// microsecond if there are none. A request calls it when it has waited for other requests.
func ToNewRequests() {
	if enabled {
		runtime.Gosched()
	}
}
