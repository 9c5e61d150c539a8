// Package networking declares the resources of networking.k8s.io.
package networking

import (
	networkingv1 "k8s.io/api/networking/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// V1 returns the group version networking.k8s.io/v1.
func V1() builtin.Group {
	return builtin.Group{GroupVersion: networkingv1.SchemeGroupVersion, Resources: []builtin.Entry{
		builtin.Resource(builtin.Row[*networkingv1.Ingress]{
			Names: builtin.Names{Plural: "ingresses", Kind: "Ingress", ShortNames: []string{"ing"}}, Namespaced: true,
			Storage:     builtin.Storage{Path: "ingress"},
			WritePolicy: builtin.WritePolicy{Generation: true},
			Strategy:    builtin.Strategy[*networkingv1.Ingress]{Validate: validateIngress, Warnings: ingressWarnings},
			Status:      &builtin.Status[*networkingv1.Ingress]{Validate: validateIngressStatus},
			Columns:     ingressColumns(),
		}),
		builtin.Resource(builtin.Row[*networkingv1.IngressClass]{
			Names:       builtin.Names{Plural: "ingressclasses", Kind: "IngressClass"},
			WritePolicy: builtin.WritePolicy{Generation: true},
			Strategy:    builtin.Strategy[*networkingv1.IngressClass]{Default: defaultIngressClass, Validate: validateIngressClass},
			Columns:     ingressClassColumns(),
		}),
		builtin.Resource(builtin.Row[*networkingv1.IPAddress]{
			Names: builtin.Names{Plural: "ipaddresses", Kind: "IPAddress", ShortNames: []string{"ip"}},
			// generateName is used without a random suffix, because an address with a suffix is not an address.
			WritePolicy: builtin.WritePolicy{ValidateName: validateAddress, ExactGenerateName: true},
			Strategy:    builtin.Strategy[*networkingv1.IPAddress]{Validate: validateIPAddress, BeginTransaction: beginAddress},
			Columns:     ipAddressColumns(),
		}),
		builtin.Resource(builtin.Row[*networkingv1.NetworkPolicy]{
			Names: builtin.Names{Plural: "networkpolicies", Kind: "NetworkPolicy", ShortNames: []string{"netpol"}}, Namespaced: true,
			WritePolicy: builtin.WritePolicy{Generation: true},
			Strategy: builtin.Strategy[*networkingv1.NetworkPolicy]{
				Default:  defaultNetworkPolicy,
				Validate: validateNetworkPolicy, Warnings: networkPolicyWarnings,
			},
			Columns: networkPolicyColumns(),
		}),
		builtin.Resource(builtin.Row[*networkingv1.ServiceCIDR]{
			Names:    builtin.Names{Plural: "servicecidrs", Kind: "ServiceCIDR"},
			Strategy: builtin.Strategy[*networkingv1.ServiceCIDR]{Validate: validateServiceCIDR},
			Status:   &builtin.Status[*networkingv1.ServiceCIDR]{PreservedMetadata: []string{"metadata"}},
			Columns:  serviceCIDRColumns(),
		}),
	}}
}
