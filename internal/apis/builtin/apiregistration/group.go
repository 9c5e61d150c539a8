// Package apiregistration declares the resource of apiregistration.k8s.io. Package aggregated
// forwards requests to the registered servers.
package apiregistration

import (
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// V1 returns the group version apiregistration.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: apiregistrationv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*apiregistrationv1.APIService]{
			Names:       builtin.Names{Plural: "apiservices", Kind: "APIService", Categories: []string{"api-extensions"}},
			Storage:     builtin.Storage{Path: "apiregistration.k8s.io/apiservices"},
			WritePolicy: builtin.WritePolicy{RequireResourceVersion: true, AllowAnyFinalizer: true, ValidateName: anyName},
			Strategy: builtin.Strategy[*apiregistrationv1.APIService]{
				Default:          defaultAPIService,
				PrepareForCreate: prepare,
				ValidateExternal: validateLocalVersion, Validate: validateAPIService,
			},
			Status:  &builtin.Status[*apiregistrationv1.APIService]{PreservedMetadata: []string{"metadata"}, Validate: validateStatus},
			Columns: columns(),
		}),
	}}
}
