// Package rules implements the validation rules of custom resources in CEL
// (x-kubernetes-validations): Checker validates them when a definition is written, and
// Rules validates objects by them.
//
// Texts, paths, costs and limits are kube-apiserver's. Types and values of expressions
// are in package cel/typed, the language and its functions in cel/environment.
package rules
