package networking

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
	"mainstay.dev/mainstay/internal/storage"
)

// validateAddress requires the canonical form of an address, so that each address has only one name.
func validateAddress(name string, _ bool) []string {
	var problems []string
	for _, err := range validation.IsValidIP(nil, name) {
		problems = append(problems, err.Detail)
	}
	return problems
}

// beginAddress implements Strategy.BeginTransaction. An address of a service can be deleted only together with
// the service, because otherwise another service could get the same address. In kube-apiserver, a controller
// recreates the object later instead.
func beginAddress(op *builtin.Operation, address, old *networkingv1.IPAddress) (registry.Transaction, error) {
	if address != nil || old == nil {
		return registry.Transaction{}, nil
	}
	holder, err := holderOf(op, old)
	if err == nil && holder != nil {
		err = apierrors.NewConflict(networkingv1.Resource("ipaddresses"), old.Name,
			fmt.Errorf("it is the address of the service %s/%s and is released when that service is deleted", holder.Namespace, holder.Name))
	}
	return registry.Transaction{}, err
}

// holderOf returns the service that uses an address, or nil if no service uses it. No service can start using
// the address during the request, because it would have to create the IPAddress that is being deleted.
func holderOf(op *builtin.Operation, address *networkingv1.IPAddress) (*corev1.Service, error) {
	parent, services := address.Spec.ParentRef, op.Env.Store(corev1.Resource("services"))
	if services == nil || parent == nil || parent.Group != "" || parent.Resource != "services" {
		return nil, nil
	}
	record, err := services.Storage.Get(op.Context, types.NamespacedName{Namespace: parent.Namespace, Name: parent.Name},
		storage.ReadOptions{ResourceVersion: address.ResourceVersion})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the service of %s: %w", address.Name, err)
	}
	service, err := codec.SharedAs[*corev1.Service](record)
	if err != nil {
		return nil, err
	}
	if slices.Contains(service.Spec.ClusterIPs, address.Name) {
		return service, nil
	}
	return nil, nil
}

// ipAddressColumns returns one more cell per row than column definitions. As in kube-apiserver, the last cell
// is the age, which has no column definition.
func ipAddressColumns() *builtin.Columns[*networkingv1.IPAddress] {
	return &builtin.Columns[*networkingv1.IPAddress]{
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

func serviceCIDRColumns() *builtin.Columns[*networkingv1.ServiceCIDR] {
	return &builtin.Columns[*networkingv1.ServiceCIDR]{
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

func networkPolicyColumns() *builtin.Columns[*networkingv1.NetworkPolicy] {
	return &builtin.Columns[*networkingv1.NetworkPolicy]{
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
