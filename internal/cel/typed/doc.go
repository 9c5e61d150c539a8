// Package typed maps the structural schemas of custom resources to CEL: types for checking, values
// as views of documents without a copy, and maximum sizes for cost estimates. A Type contains all
// three for a schema. The accessible members, their names, and the CEL types of formats are those
// of kube-apiserver. The package declares no variables and compiles no expressions. For built-in
// kinds, expressions of policies are checked with types and evaluated without.
package typed
