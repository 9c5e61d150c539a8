// Package networking declares the resources of networking.k8s.io.
package networking

import (
	networkingv1 "k8s.io/api/networking/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// V1 is networking.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: networkingv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[networkingv1.Ingress]{
			Name: "ingresses", Kind: "Ingress", Namespaced: true, ShortNames: []string{"ing"},
			StoragePath: "ingress", Status: true, Generation: true, Warnings: ingressWarnings,
			Validate: validateIngress, ValidateStatus: validateIngressStatus,
			Columns: ingressColumns(),
		}),
		builtin.Resource(builtin.Row[networkingv1.IngressClass]{
			Name: "ingressclasses", Kind: "IngressClass", Generation: true,
			Default: defaultIngressClass, Validate: validateIngressClass, Columns: ingressClassColumns(),
		}),
		builtin.Resource(builtin.Row[networkingv1.IPAddress]{
			Name: "ipaddresses", Kind: "IPAddress", ShortNames: []string{"ip"},
			ValidateName: validateAddress, ExactGenerateName: true, // names with a generated suffix are not addresses
			Validate: validateIPAddress, Begin: beginAddress, Columns: ipAddressColumns(),
		}),
		builtin.Resource(builtin.Row[networkingv1.NetworkPolicy]{
			Name: "networkpolicies", Kind: "NetworkPolicy", Namespaced: true, ShortNames: []string{"netpol"}, Generation: true,
			Default: defaultNetworkPolicy, Warnings: networkPolicyWarnings, Validate: validateNetworkPolicy,
			Columns: networkPolicyColumns(),
		}),
		builtin.Resource(builtin.Row[networkingv1.ServiceCIDR]{
			Name: "servicecidrs", Kind: "ServiceCIDR",
			Status: true, StatusKeeps: []string{"metadata"},
			Validate: validateServiceCIDR, Columns: serviceCIDRColumns(),
		}),
	}}
}
