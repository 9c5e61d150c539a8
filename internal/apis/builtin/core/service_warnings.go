package core

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// serviceWarnings returns warnings for deprecated fields, for fields that have no effect, and for addresses
// that different programs parse differently.
func serviceWarnings(_ *builtin.Operation, service, _ *corev1.Service) []string {
	spec, path := &service.Spec, field.NewPath("spec")
	headless := spec.ClusterIP == corev1.ClusterIPNone
	var warnings []string
	if !headless {
		warnings = append(warnings, addressWarnings(path.Child("clusterIPs"), spec.ClusterIPs)...)
	} else {
		warnings = append(warnings, headlessWarnings(spec)...)
	}
	switch {
	case len(spec.ExternalIPs) == 0 || headless:
	case spec.Type == corev1.ServiceTypeExternalName:
		warnings = append(warnings, fmt.Sprintf("spec.externalIPs is ignored when spec.type is %q", corev1.ServiceTypeExternalName))
	default:
		warnings = append(warnings, "spec.externalIPs is deprecated and may no longer be implemented in some clusters")
	}
	warnings = append(warnings, addressWarnings(path.Child("externalIPs"), spec.ExternalIPs)...)
	// This field accepts any text, but GetWarningsForIP requires a valid address.
	if ip := path.Child("loadBalancerIP"); spec.LoadBalancerIP != "" && len(validation.IsValidIPForLegacyField(ip, spec.LoadBalancerIP, false, nil)) == 0 {
		warnings = append(warnings, validation.GetWarningsForIP(ip, spec.LoadBalancerIP)...)
	}
	for i, cidr := range spec.LoadBalancerSourceRanges {
		warnings = append(warnings, validation.GetWarningsForCIDR(path.Child("loadBalancerSourceRanges").Index(i), cidr)...)
	}
	if spec.ExternalName != "" && spec.Type != corev1.ServiceTypeExternalName {
		warnings = append(warnings, fmt.Sprintf("spec.externalName is ignored when spec.type is not %q", corev1.ServiceTypeExternalName))
	}
	if d := spec.TrafficDistribution; d != nil && *d == corev1.ServiceTrafficDistributionPreferClose {
		warnings = append(warnings, fmt.Sprintf("spec.trafficDistribution: %q is deprecated; use %q",
			corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone))
	}
	return warnings
}

func headlessWarnings(spec *corev1.ServiceSpec) []string {
	var warnings []string
	if spec.LoadBalancerIP != "" {
		warnings = append(warnings, "spec.loadBalancerIP is ignored for headless services")
	}
	if len(spec.ExternalIPs) > 0 {
		warnings = append(warnings, "spec.externalIPs is ignored for headless services")
	}
	if spec.SessionAffinity != "" && spec.SessionAffinity != corev1.ServiceAffinityNone {
		warnings = append(warnings, "spec.SessionAffinity is ignored for headless services")
	}
	return warnings
}

func addressWarnings(path *field.Path, addresses []string) []string {
	var warnings []string
	for i, address := range addresses {
		warnings = append(warnings, validation.GetWarningsForIP(path.Index(i), address)...)
	}
	return warnings
}
