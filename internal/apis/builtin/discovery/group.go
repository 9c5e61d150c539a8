// Package discovery declares the resources of discovery.k8s.io: where services
// are to be found. Discovery of the API itself is not its concern.
package discovery

import (
	discoveryv1 "k8s.io/api/discovery/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// V1 is discovery.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: discoveryv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[discoveryv1.EndpointSlice]{
			Name: "endpointslices", Kind: "EndpointSlice", Namespaced: true,
			Generation: true, SpecChanged: never, // prepareUpdate counts
			Default: defaultSlice, Prepare: prepare, PrepareUpdate: prepareUpdate, Warnings: warnings,
			Validate: validateSlice, Columns: columns(),
		}),
	}}
}
