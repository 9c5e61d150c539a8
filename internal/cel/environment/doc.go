// Package environment provides the base CEL environment for all expressions in the Kubernetes API: language
// options, macros, function libraries, validators of literals, and cost limits. Callers extend it with their
// variables and types. The package does not depend on the types of custom resources or on their rules.
package environment
