// Package apiregistration declares the resource of apiregistration.k8s.io. Package aggregated
// forwards requests to the registered servers.
package apiregistration

import (
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// V1 is apiregistration.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: apiregistrationv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[apiregistrationv1.APIService]{
			Name: "apiservices", Kind: "APIService", Categories: []string{"api-extensions"}, AnyFinalizer: true,
			StoragePath: "apiregistration.k8s.io/apiservices",
			Status:      true, StatusKeeps: []string{"metadata"}, RequireResourceVersion: true,
			ValidateName: anyName, Validate: validateAPIService, ValidateStatus: validateStatus,
			Permit: permitAPIService, Default: defaultAPIService, Prepare: prepare, Columns: columns(),
		}),
	}}
}
