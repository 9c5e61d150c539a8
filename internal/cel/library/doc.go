// Package library has the CEL libraries of Kubernetes, one per file: lists, regular
// expressions, URLs, IP addresses and CIDRs, quantities, named formats and semantic
// versions, and what users may do. CostEstimator estimates and tracks the cost of their calls.
//
// Signatures, results, errors and costs are kube-apiserver's: expressions that work there
// work here, and texts of errors and costs reach users. Libraries of the CEL project come
// with cel-go.
package library
