// Package discovery declares EndpointSlice, the resource of discovery.k8s.io. EndpointSlices contain the
// endpoints of services. API discovery is implemented in internal/endpoints/discovery.
package discovery

import (
	discoveryv1 "k8s.io/api/discovery/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// V1 returns the group version discovery.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: discoveryv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*discoveryv1.EndpointSlice]{
			Names: builtin.Names{Plural: "endpointslices", Kind: "EndpointSlice"}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{Generation: true},
			Strategy: builtin.Strategy[*discoveryv1.EndpointSlice]{
				Default:          defaultSlice,
				PrepareForCreate: prepare, PrepareForUpdate: prepareUpdate, SpecChanged: never, // prepareUpdate increments the generation
				Validate: validateSlice, Warnings: warnings,
			},
			Columns: columns(),
		}),
	}}
}
