// Package definitions contains the OpenAPI definitions of the built-in types as Go code. This file is a
// placeholder without definitions; the generator uses a build overlay to replace it with the output of
// openapi-gen.
package definitions

import "k8s.io/kube-openapi/pkg/common"

// GetOpenAPIDefinitions returns nil in this placeholder; see the package comment.
func GetOpenAPIDefinitions(common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	return nil
}
