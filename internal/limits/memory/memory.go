// Package memory keeps a server within the memory that it is given: it finds out how much
// that is, bounds what requests hold while they are served, and tells caches when to give
// back.
//
//   - machine: how much memory the process may use, by its control group or the machine.
//   - budget: the bytes that requests hold, for which large ones wait.
//   - pressure: whether what is in use comes near the limit.
//
// The limit is not exact: what a request makes of its body is estimated, and the garbage
// collector, which is to be told of the limit too (runtime/debug.SetMemoryLimit), collects
// more often the nearer it is.
package memory

// Shares of a limit.
const (
	// requestsShare is the divisor of the limit for the total memory of requests.
	requestsShare = 4
	// pressedPercent of a limit in use after a collection is pressure.
	pressedPercent = 70
)

// MinLimit is the minimum memory limit of a server, in bytes: twice its memory at rest.
const MinLimit = 64 << 20
