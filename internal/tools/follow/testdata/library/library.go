// Package library is a fixture.
package library

// Name is a name.
const Name = "library"
