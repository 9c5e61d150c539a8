// Package policies tries admission policies of the kinds that people publish, each with
// objects that it allows, refuses or changes, on a server of its own.
package policies
