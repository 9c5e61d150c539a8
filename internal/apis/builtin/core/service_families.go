package core

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// clusterFamilies returns the IP families of ranges, in the same order. The first family is the default.
func clusterFamilies(ranges []netip.Prefix) []corev1.IPFamily {
	var families []corev1.IPFamily
	for _, r := range ranges {
		family := corev1.IPv4Protocol
		if r.Addr().Is6() {
			family = corev1.IPv6Protocol
		}
		families = append(families, family)
	}
	return families
}

// defaultFamilyPolicy sets the IP family policy if it is not set. The default is the policy of the old
// service, RequireDualStack for a headless service without a selector, or SingleStack.
func defaultFamilyPolicy(service, old *corev1.Service) {
	spec := &service.Spec
	switch {
	case !needsClusterIP(service) || spec.IPFamilyPolicy != nil:
	case old != nil && old.Spec.IPFamilyPolicy != nil:
		spec.IPFamilyPolicy = old.Spec.IPFamilyPolicy
	case spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0:
		spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
	default:
		spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
	}
}

func isSingleStack(spec *corev1.ServiceSpec) bool {
	return spec.IPFamilyPolicy != nil && *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
}

// dropSecondFamily removes the second address and the second family of a single-stack service from each list
// that the client has not changed.
func dropSecondFamily(spec, before *corev1.ServiceSpec) {
	if !isSingleStack(spec) {
		return
	}
	if len(spec.ClusterIPs) > 1 && slices.Equal(spec.ClusterIPs, before.ClusterIPs) {
		spec.ClusterIPs = spec.ClusterIPs[:1:1]
	}
	if len(spec.IPFamilies) > 1 && slices.Equal(spec.IPFamilies, before.IPFamilies) {
		spec.IPFamilies = spec.IPFamilies[:1:1]
	}
}

// keepsPreferredFamilies reports whether an update leaves the families of a PreferDualStack service unchanged.
// The service then keeps its number of families, even if the families of the cluster have changed.
func keepsPreferredFamilies(service, old *corev1.Service) bool {
	if old == nil || service.Spec.Type != old.Spec.Type {
		return false
	}
	for _, spec := range []*corev1.ServiceSpec{&service.Spec, &old.Spec} {
		if spec.IPFamilyPolicy == nil || *spec.IPFamilyPolicy != corev1.IPFamilyPolicyPreferDualStack {
			return false
		}
	}
	return slices.Equal(service.Spec.ClusterIPs, old.Spec.ClusterIPs) && slices.Equal(service.Spec.IPFamilies, old.Spec.IPFamilies)
}

// completeFamilies appends missing IP families to a service, up to the number that its policy requires. It
// appends the families of its addresses first, then the families of the cluster. It returns errors for
// families that the cluster lacks.
func completeFamilies(service, old *corev1.Service, cluster []corev1.IPFamily) field.ErrorList {
	if !needsClusterIP(service) || keepsPreferredFamilies(service, old) {
		return nil
	}
	spec, path := &service.Spec, field.NewPath("spec")
	spec.IPFamilies = slices.Clone(spec.IPFamilies)
	if errs := inferFamilies(spec, cluster, path.Child("clusterIPs")); len(errs) > 0 {
		return errs
	}
	headless := spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0
	if !headless { // a headless service may have families that the cluster lacks
		if errs := checkFamilies(spec, cluster, path); len(errs) > 0 {
			return errs
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{cluster[0]}
	}
	if !isSingleStack(spec) && len(spec.IPFamilies) == 1 && (headless || len(cluster) == 2) {
		spec.IPFamilies = append(spec.IPFamilies, otherFamily(spec.IPFamilies[0]))
	}
	return nil
}

// inferFamilies appends the families of those addresses whose index is beyond the end of the list of families.
func inferFamilies(spec *corev1.ServiceSpec, cluster []corev1.IPFamily, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range spec.ClusterIPs {
		if ip == corev1.ClusterIPNone {
			break
		}
		if i < len(spec.IPFamilies) {
			continue
		}
		family := corev1.IPv4Protocol
		if isIPv6(ip) {
			family = corev1.IPv6Protocol
		}
		if slices.Contains(cluster, family) {
			spec.IPFamilies = append(spec.IPFamilies, family)
		} else {
			errs = append(errs, field.Invalid(path.Index(i), spec.ClusterIPs, fmt.Sprintf("%s is not configured on this cluster", family)))
		}
	}
	return errs
}

func checkFamilies(spec *corev1.ServiceSpec, cluster []corev1.IPFamily, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if policy := spec.IPFamilyPolicy; policy != nil && *policy == corev1.IPFamilyPolicyRequireDualStack && len(cluster) < 2 {
		errs = append(errs, field.Invalid(path.Child("ipFamilyPolicy"), *policy, "this cluster is not configured for dual-stack services"))
	}
	for i, family := range spec.IPFamilies {
		if !slices.Contains(cluster, family) {
			errs = append(errs, field.Invalid(path.Child("ipFamilies").Index(i), family, "not configured on this cluster"))
		}
	}
	return errs
}

func otherFamily(family corev1.IPFamily) corev1.IPFamily {
	if family == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}
