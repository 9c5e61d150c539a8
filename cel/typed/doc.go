// Package typed gives CEL what the schema of a custom resource says of its
// objects: types, so that an expression is checked before it is used; values,
// which stand for a document without copying it; and the largest sizes that
// values may have, so that the cost of an expression can be told beforehand.
//
// A Type is all three for one schema and what is below it. Which members of an
// object an expression sees, under which names, and what values of a format are
// to CEL, is kube-apiserver's.
//
// It is not for expressions: it declares no variable and compiles nothing. Nor
// is it for built-in kinds.
//
// Imports: cel/environment.
package typed
