// Package extension is a small aggregated API server, for tests of those that
// send requests on to it. It serves apples in memory, knows its users by the
// front proxy alone, and misbehaves on demand.
package extension
