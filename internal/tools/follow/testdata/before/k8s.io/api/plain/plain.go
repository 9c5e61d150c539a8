// Package plain is a fixture.
package plain

// Old is removed in the next version.
const Old = 1
