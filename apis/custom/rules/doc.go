// Package rules holds the validation rules that the schemas of custom resources
// make in CEL (x-kubernetes-validations): Check judges them when a definition is
// written, and Rules judges objects by them.
//
// Texts, paths, costs and limits are kube-apiserver's. The types and values that
// expressions see are package cel/typed's affair, functions and language package
// cel/environment's.
//
// Imports: apis/custom/schema, cel/environment, cel/library, cel/typed, request.
package rules
