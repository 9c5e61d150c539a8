// Package extension is a small aggregated API server, for tests of API aggregation. It serves apples from
// memory, authenticates users only by the front proxy headers, and can be made to fail.
package extension
