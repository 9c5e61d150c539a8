// Package environment is the one CEL environment that all expressions of the
// Kubernetes API start from: language options, macros, function libraries,
// validators of literals, and the limits on what an expression may cost. Whoever
// has variables and types to declare extends it.
//
// It is not for the types of custom resources or for the rules made of them, and
// knows no object of the API.
//
// Imports: cel/library, cel/pattern.
package environment
