// Package environment has the base CEL environment of all expressions of the Kubernetes
// API: language options, macros, function libraries, validators of literals, and cost
// limits. Callers extend it with their variables and types.
//
// It is not for the types of custom resources or their rules.
package environment
