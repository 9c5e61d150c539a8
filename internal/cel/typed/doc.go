// Package typed maps structural schemas, those of custom resources, to CEL: types, to check
// expressions; values, which are views of a document without a copy; and maximum sizes, to
// estimate the cost of expressions.
//
// A Type has all three for a schema. The members that expressions can access, their names,
// and the CEL types of formats are kube-apiserver's.
//
// The package declares no variables and compiles no expressions. Of built-in
// kinds, expressions of policies are checked with types, and evaluated without.
package typed
