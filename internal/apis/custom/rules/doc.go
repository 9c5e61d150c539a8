// Package rules implements the CEL validation rules of custom resources (x-kubernetes-validations, KEP-2876).
// Checker validates the rules when a definition is written; Rules validates objects with them.
//
// Messages, paths, costs and limits are the same as in kube-apiserver. Package cel/typed implements the types
// and values of expressions, and package cel/environment implements the language and its functions.
package rules
