// Package library contains the CEL libraries of Kubernetes, one per file: lists, regular expressions, URLs, IP
// addresses and CIDRs, quantities, formats, semantic versions, and authorization. CostEstimator computes the
// costs of their functions. Signatures, results, error messages and costs are the same as in kube-apiserver.
// The libraries that the CEL project defines are part of cel-go.
package library
