// Package feature is a fixture.
package feature

// Direct is a gate.
const Direct = "Direct"
