package networking

import (
	"fmt"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// ingressWarnings warns about a new ingress with the class annotation instead of the class field.
func ingressWarnings(_ *builtin.Operation, ingress, old *networkingv1.Ingress) []string {
	_, annotated := ingress.Annotations[annotationIngressClass]
	if old != nil || !annotated || ingress.Spec.IngressClassName != nil {
		return nil
	}
	return []string{fmt.Sprintf("annotation %q is deprecated, please use 'spec.ingressClassName' instead", annotationIngressClass)}
}

// networkPolicyWarnings warns about CIDRs that programs parse in different ways.
func networkPolicyWarnings(_ *builtin.Operation, policy, _ *networkingv1.NetworkPolicy) []string {
	var warnings []string
	path := field.NewPath("spec")
	for i := range policy.Spec.Ingress {
		warnings = append(warnings, peerWarnings(path.Child("ingress").Index(i).Child("from"), policy.Spec.Ingress[i].From)...)
	}
	for i := range policy.Spec.Egress {
		warnings = append(warnings, peerWarnings(path.Child("egress").Index(i).Child("to"), policy.Spec.Egress[i].To)...)
	}
	return warnings
}

func peerWarnings(path *field.Path, peers []networkingv1.NetworkPolicyPeer) []string {
	var warnings []string
	for i := range peers {
		block, at := peers[i].IPBlock, path.Index(i).Child("ipBlock")
		if block == nil {
			continue
		}
		warnings = append(warnings, validation.GetWarningsForCIDR(at.Child("cidr"), block.CIDR)...)
		for j, except := range block.Except {
			warnings = append(warnings, validation.GetWarningsForCIDR(at.Child("except").Index(j), except)...)
		}
	}
	return warnings
}
