// Package node declares the resources of node.k8s.io.
//
// Imports: apis/builtin.
package node

import (
	nodev1 "k8s.io/api/node/v1"

	"mainstay.dev/mainstay/apis/builtin"
)

// V1 is node.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: nodev1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[nodev1.RuntimeClass]{
			Name: "runtimeclasses", Kind: "RuntimeClass",
			CreateOnUpdate: true, RequireResourceVersion: true,
		}),
	}}
}
