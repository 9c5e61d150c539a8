// Package memory keeps a server within its memory limit.
//
//   - machine.go determines the available memory, from the control group or the machine.
//   - budget.go limits the memory of large requests, which wait until other requests release memory.
//   - pressure.go detects that the process is close to the limit, so that caches can shrink.
//
// The limit is not exact, because the memory of a request is estimated from the size of its body.
// Callers should also pass the limit to debug.SetMemoryLimit, so that the garbage collector runs
// more often near the limit.
package memory

// Shares of a limit.
const (
	// requestsShare is the number by which the limit is divided to get the memory for large requests.
	requestsShare = 4
	// pressedPercent is the live heap size, as a percentage of the limit, from which memory is considered
	// to be under pressure.
	pressedPercent = 70
)

// MinLimit is the minimum memory limit of a server, in bytes. It is twice the memory of an idle
// server.
const MinLimit = 64 << 20
