// Package library is the functions that Kubernetes adds to CEL, one file for each
// library: lists, regular expressions, URLs, IP addresses and blocks of them,
// quantities, named formats and semantic versions. CostEstimator says what calls
// of them cost, before and after they were made.
//
// What each takes, answers, refuses and costs is kube-apiserver's: expressions
// that work there work here, and texts of errors and costs reach users. It is not
// for functions of the CEL project itself, which come with cel-go.
//
// Imports: cel/pattern, codec/quantity.
package library
