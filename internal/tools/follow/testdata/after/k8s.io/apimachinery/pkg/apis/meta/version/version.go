// Package version is a fixture.
package version

// Minor is the minor version.
const Minor = 38
