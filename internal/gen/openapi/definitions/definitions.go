// Package definitions holds the OpenAPI definitions of the built-in types as
// Go code. This file is what the package is when compiled alone; the generator
// lays the output of openapi-gen over it.
package definitions

import "k8s.io/kube-openapi/pkg/common"

// GetOpenAPIDefinitions returns no definition: see the package comment.
func GetOpenAPIDefinitions(common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	return nil
}
