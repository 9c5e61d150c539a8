// Package library contains the CEL libraries of Kubernetes, one per file: lists, regular
// expressions, URLs, IP addresses and CIDRs, quantities, formats, semantic versions, and
// authorization. CostEstimator estimates and tracks the costs of their calls. Signatures, results,
// errors and costs are those of kube-apiserver, because users see error messages and costs. cel-go
// contains the libraries of the CEL project.
package library
