// Package scheduling declares the resources of scheduling.k8s.io.
//
// Imports: apis/builtin.
package scheduling

import (
	schedulingv1 "k8s.io/api/scheduling/v1"

	"mainstay.dev/mainstay/apis/builtin"
)

// V1 is scheduling.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: schedulingv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[schedulingv1.PriorityClass]{
			Name: "priorityclasses", Kind: "PriorityClass", ShortNames: []string{"pc"},
			Generation: true,
		}),
	}}
}
