package networking

import (
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/apis/builtin"
)

// validateAddress accepts addresses in their one canonical form, so that an
// address cannot be taken twice.
func validateAddress(name string, _ bool) []string {
	var problems []string
	for _, err := range validation.IsValidIP(nil, name) {
		problems = append(problems, err.Detail)
	}
	return problems
}

// ipAddressColumns has more cells than definitions: kube-apiserver sends an
// age that no column is for.
func ipAddressColumns() *builtin.Columns[networkingv1.IPAddress] {
	return &builtin.Columns[networkingv1.IPAddress]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("ParentRef", "string", networkingv1.IPAddressSpec{}.SwaggerDoc()["parentRef"]),
		},
		Cells: func(address *networkingv1.IPAddress, now time.Time) []any {
			return []any{address.Name, parentText(address.Spec.ParentRef), builtin.Age(address.CreationTimestamp, now)}
		},
	}
}

func parentText(ref *networkingv1.ParentReference) string {
	if ref == nil {
		return builtin.None
	}
	text := ref.Resource
	if ref.Group != "" {
		text += "." + ref.Group
	}
	if ref.Namespace != "" {
		text += "/" + ref.Namespace
	}
	return strings.ToLower(text + "/" + ref.Name)
}

func serviceCIDRColumns() *builtin.Columns[networkingv1.ServiceCIDR] {
	return &builtin.Columns[networkingv1.ServiceCIDR]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("CIDRs", "string", networkingv1.ServiceCIDRSpec{}.SwaggerDoc()["cidrs"]),
			builtin.AgeColumn(),
		},
		Cells: func(cidr *networkingv1.ServiceCIDR, now time.Time) []any {
			return []any{cidr.Name, strings.Join(cidr.Spec.CIDRs, ","), builtin.Age(cidr.CreationTimestamp, now)}
		},
	}
}

func networkPolicyColumns() *builtin.Columns[networkingv1.NetworkPolicy] {
	return &builtin.Columns[networkingv1.NetworkPolicy]{
		Definitions: []metav1.TableColumnDefinition{
			builtin.NameColumn(),
			builtin.Column("Pod-Selector", "string", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"]),
			builtin.AgeColumn(),
		},
		Cells: func(policy *networkingv1.NetworkPolicy, now time.Time) []any {
			return []any{policy.Name, metav1.FormatLabelSelector(&policy.Spec.PodSelector), builtin.Age(policy.CreationTimestamp, now)}
		},
	}
}
