// Package definitions contains the OpenAPI definitions of the built-in types as Go code. This file
// is the package without generated code; the generator adds the output of openapi-gen with a build
// overlay.
package definitions

import "k8s.io/kube-openapi/pkg/common"

// GetOpenAPIDefinitions returns no definition: see the package comment.
func GetOpenAPIDefinitions(common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	return nil
}
