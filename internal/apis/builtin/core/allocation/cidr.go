package allocation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
)

// CIDRs contains the prefixes of all ready ServiceCIDR objects, of both IP families.
type CIDRs []netip.Prefix

// ReadCIDRs reads the ServiceCIDR objects. It reads from the store if current is set, and from the cache
// otherwise. It returns an error if the list fails. The caller owns the result.
func ReadCIDRs(ctx context.Context, objects rest.Lister, current bool) (CIDRs, error) {
	version := cached
	if current {
		version = newest
	}
	list, err := objects.List(ctx, "", rest.ListOptions{ResourceVersion: version})
	if err != nil {
		return nil, fmt.Errorf("list the ServiceCIDRs: %w", err)
	}
	var cidrs CIDRs
	for record, err := range list.Items {
		if err != nil {
			return nil, fmt.Errorf("list the ServiceCIDRs: %w", err)
		}
		object, err := codec.SharedAs[*networkingv1.ServiceCIDR](record)
		if err != nil {
			return nil, err
		}
		if ready(object) {
			cidrs = append(cidrs, parse(object.Spec.CIDRs)...)
		}
	}
	return cidrs, nil
}

// ready reports whether addresses may be allocated from an object. An object without the Ready condition is
// ready, because kube-controller-manager, which sets the condition, might not run.
func ready(object *networkingv1.ServiceCIDR) bool {
	condition := meta.FindStatusCondition(object.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	return object.DeletionTimestamp == nil && (condition == nil || condition.Status == metav1.ConditionTrue)
}

func parse(texts []string) []netip.Prefix {
	var cidrs []netip.Prefix
	for _, text := range texts {
		if cidr, err := netip.ParsePrefix(text); err == nil { // validation rejects invalid prefixes
			cidrs = append(cidrs, cidr.Masked())
		}
	}
	return cidrs
}

// Family returns the CIDRs of an IP family in random order.
func (c CIDRs) Family(ipv6 bool) []netip.Prefix {
	var cidrs []netip.Prefix
	for _, cidr := range c {
		if cidr.Addr().Is6() == ipv6 && !slices.Contains(cidrs, cidr) {
			cidrs = append(cidrs, cidr)
		}
	}
	rand.Shuffle(len(cidrs), func(i, j int) { cidrs[i], cidrs[j] = cidrs[j], cidrs[i] })
	return cidrs
}

// Contains reports whether an address can be allocated from one of the CIDRs.
func (c CIDRs) Contains(address netip.Addr) bool {
	return slices.ContainsFunc(c, func(cidr netip.Prefix) bool { return Contains(cidr, address) })
}
