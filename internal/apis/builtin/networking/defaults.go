package networking

import (
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

func defaultIngressClass(class *networkingv1.IngressClass) {
	if parameters := class.Spec.Parameters; parameters != nil {
		builtin.SetDefault(&parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
	}
}

// defaultNetworkPolicy sets defaults for ports and for policy types. The default types are Ingress and, if
// there are egress rules, Egress.
func defaultNetworkPolicy(policy *networkingv1.NetworkPolicy) {
	spec := &policy.Spec
	if len(spec.PolicyTypes) == 0 {
		spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(spec.Egress) > 0 {
			spec.PolicyTypes = append(spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	for i := range spec.Ingress {
		defaultPolicyPorts(spec.Ingress[i].Ports)
	}
	for i := range spec.Egress {
		defaultPolicyPorts(spec.Egress[i].Ports)
	}
}

func defaultPolicyPorts(ports []networkingv1.NetworkPolicyPort) {
	for i := range ports {
		builtin.SetDefault(&ports[i].Protocol, corev1.ProtocolTCP)
	}
}
