// Package extension is a small aggregated API server, for tests of API aggregation. It serves
// apples from memory, authenticates users with the front proxy headers only, and has configurable
// failures.
package extension
