package networking

import (
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	apivalidation "k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateIPAddress(f validation.Field, address, old *networkingv1.IPAddress) {
	ref, at := address.Spec.ParentRef, f.Child("spec").Child("parentRef")
	if ref == nil {
		at.Required("")
	} else {
		validateParent(at, ref)
	}
	if old == nil {
		return
	}
	if base := address.GenerateName; base != "" { // on creation, the registry validates generateName
		f.Child("metadata").Child("generateName").InvalidFor(base, validateAddress(base, true))
	}
	validation.Immutable(at, ref, old.Spec.ParentRef)
}

// validateParent validates the reference to the parent object. An empty group is the core group.
func validateParent(f validation.Field, ref *networkingv1.ParentReference) {
	if ref.Group != "" {
		f.Child("group").DNSSubdomain(ref.Group)
	}
	f.Child("resource").RequiredPathSegment(ref.Resource)
	f.Child("namespace").PathSegment(ref.Namespace)
	f.Child("name").RequiredPathSegment(ref.Name)
}

// validateServiceCIDR validates the ranges. They are immutable, except that a range of the other IP family can
// be added.
func validateServiceCIDR(f validation.Field, cidr, old *networkingv1.ServiceCIDR) {
	f = f.Child("spec").Child("cidrs")
	cidrs := cidr.Spec.CIDRs
	if old == nil {
		validateCIDRs(f, cidrs)
		return
	}
	before := old.Spec.CIDRs
	adds := len(before) == 1 && len(cidrs) == 2
	if len(cidrs) != len(before) && !adds {
		validation.Immutable(f, cidrs, before)
		return
	}
	for i := range before {
		validation.ImmutableValue(f.Index(i), cidrs[i], before[i])
	}
	if adds {
		validateCIDRs(f, cidrs)
	}
}

func validateCIDRs(f validation.Field, cidrs []string) {
	switch {
	case len(cidrs) == 0:
		f.Required("at least one CIDR required")
		return
	case len(cidrs) > 2:
		f.Invalid(networkingv1.ServiceCIDRSpec{CIDRs: cidrs}, "may only hold up to 2 values")
		return
	}
	for i, cidr := range cidrs {
		for _, problem := range apivalidation.IsValidCIDR(nil, cidr) {
			f.Index(i).Invalid(cidr, problem.Detail)
		}
	}
	if len(cidrs) == 2 && sameFamily(cidrs[0], cidrs[1]) {
		f.Invalid(cidrs, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64")
	}
}

func sameFamily(a, b string) bool {
	first, err := netip.ParsePrefix(a)
	second, err2 := netip.ParsePrefix(b)
	return err == nil && err2 == nil && first.Addr().Is4() == second.Addr().Is4()
}
