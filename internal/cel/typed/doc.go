// Package typed maps the structural schemas of custom resources to CEL. It provides types for checking
// expressions, values that are views of documents, and maximum sizes for cost estimates. A Type contains all
// three for one schema. The accessible members, their names, and the CEL types of formats are the same as in
// kube-apiserver.
//
// The package declares no variables and compiles no expressions. Policies use the types of built-in kinds only
// to check expressions, and evaluate the expressions without types.
package typed
