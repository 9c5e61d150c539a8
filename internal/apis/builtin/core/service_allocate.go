package core

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/core/allocation"
	"mainstay.dev/mainstay/internal/registry"
)

// nodePortLocks declares the objects that lock node ports. The API does not serve them.
func nodePortLocks() builtin.Row[*networkingv1.IPAddress] {
	return builtin.Row[*networkingv1.IPAddress]{
		Names:   builtin.Names{Plural: "nodeports", Kind: "NodePort"},
		Storage: builtin.Storage{Path: "services/nodeports"},
	}
}

// portBitmap declares the bitmap in which kube-apiserver allocates node ports.
func portBitmap() builtin.Row[*corev1.RangeAllocation] {
	return builtin.Row[*corev1.RangeAllocation]{
		Names:   builtin.Names{Plural: "rangeallocations", Kind: "RangeAllocation"},
		Storage: builtin.Storage{Path: "ranges"},
	}
}

// serviceAllocator allocates the addresses and ports of one service, and releases those that the service no
// longer uses. Both happen in the transaction that writes the service.
type serviceAllocator struct {
	op               *builtin.Operation
	addresses, ports *allocation.Locks
	bitmap           *allocation.Bitmap // nil if the store has no bitmap
	batch            allocation.Batch
	// guessed contains the ports that a dry run has returned or accepted.
	guessed []int32
}

// beginService implements Strategy.BeginTransaction. It allocates nothing if the control plane has no service
// address ranges.
func beginService(op *builtin.Operation, service, old *corev1.Service) (registry.Transaction, error) {
	if len(op.Env.Services.Ranges) == 0 {
		return registry.Transaction{}, nil
	}
	a, err := newServiceAllocator(op, service, old)
	if err != nil {
		return registry.Transaction{}, err
	}
	if service != nil {
		for _, step := range []func(service, old *corev1.Service) error{a.families, a.clusterIPs, a.nodePorts, a.healthCheckPort} {
			if err := step(service, old); err != nil {
				return registry.Transaction{}, err
			}
		}
	}
	if err := a.release(service, old); err != nil {
		return registry.Transaction{}, err
	}
	ops, err := a.batch.Ops(op.Context, a.bitmap)
	return registry.Transaction{With: ops, Rollback: func() { a.batch.Refresh(op.Context) }}, err
}

func newServiceAllocator(op *builtin.Operation, service, old *corev1.Service) (*serviceAllocator, error) {
	a := &serviceAllocator{op: op, addresses: allocation.AddressLocks(op.Env.Store(networkingv1.Resource("ipaddresses")).Storage)}
	a.batch.DryRun = op.DryRun
	if old != nil {
		a.batch.Service, a.batch.Version = types.NamespacedName{Namespace: old.Namespace, Name: old.Name}, old.ResourceVersion
	} else {
		a.batch.Service = types.NamespacedName{Namespace: service.Namespace, Name: service.Name}
	}
	if len(portsOf(old)) > 0 || service != nil && hasNodePorts(&service.Spec) {
		var err error
		if a.bitmap, err = allocation.ReadBitmap(op.Context, op.Env.Store(corev1.Resource("rangeallocations")).Storage); err != nil {
			return nil, err
		}
	}
	a.ports = allocation.PortLocks(op.Env.Store(corev1.Resource("nodeports")).Storage, a.bitmap)
	return a, nil
}

// families sets the missing IP families of a service.
func (a *serviceAllocator) families(service, old *corev1.Service) error {
	return invalidService(service, completeFamilies(service, old, clusterFamilies(a.op.Env.Services.Ranges)))
}

func invalidService(service *corev1.Service, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), service.Name, errs)
}

// addressesOf returns the allocated addresses of a service. service may be nil.
func addressesOf(service *corev1.Service) []string {
	if service == nil || !needsClusterIP(service) || service.Spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	return service.Spec.ClusterIPs
}

// portsOf returns the allocated ports of a service. service may be nil.
func portsOf(service *corev1.Service) []int32 {
	if service == nil {
		return nil
	}
	ports := nodePortsOf(service)
	if port := service.Spec.HealthCheckNodePort; port != 0 && needsHealthCheckPort(service) && !slices.Contains(ports, port) {
		ports = append(ports, port)
	}
	return ports
}

// nodePortsOf returns the distinct node ports that are allocated to a service. It returns none if services of
// this type have no node ports.
func nodePortsOf(service *corev1.Service) []int32 {
	if !hasNodePorts(&service.Spec) {
		return nil
	}
	var ports []int32
	for i := range service.Spec.Ports {
		if port := service.Spec.Ports[i].NodePort; port != 0 {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// Allocations returns the names of the addresses and ports that are allocated to a service.
func Allocations(service *corev1.Service) (addresses, ports []string) {
	for _, ip := range addressesOf(service) {
		addresses = append(addresses, canonical(ip))
	}
	for _, port := range portsOf(service) {
		ports = append(ports, portName(port))
	}
	return addresses, ports
}

// release releases the addresses and ports that old uses and service does not use.
func (a *serviceAllocator) release(service, old *corev1.Service) error {
	kept := addressesOf(service)
	for _, ip := range addressesOf(old) {
		if slices.Contains(kept, ip) {
			continue
		}
		if err := a.batch.Release(a.op.Context, a.addresses, canonical(ip)); err != nil {
			return err
		}
	}
	keptPorts := map[int32]bool{}
	for _, port := range portsOf(service) {
		keptPorts[port] = true
	}
	for _, port := range portsOf(old) {
		if keptPorts[port] {
			continue
		}
		if err := a.batch.Release(a.op.Context, a.ports, portName(port)); err != nil {
			return err
		}
	}
	return nil
}

func portName(port int32) string { return strconv.Itoa(int(port)) }

// canonical returns the canonical form of an address, which is the name of its lock. Stored services might
// contain other forms.
func canonical(ip string) string {
	if address, err := netip.ParseAddr(ip); err == nil {
		return address.String()
	}
	return ip
}

// clusterIPs allocates one address for each IP family of the service.
func (a *serviceAllocator) clusterIPs(service, old *corev1.Service) error {
	spec := &service.Spec
	if !needsClusterIP(service) || spec.ClusterIP == corev1.ClusterIPNone {
		return nil
	}
	held := addressesOf(old)
	ips := make([]string, len(spec.IPFamilies)) // a copy, because spec.ClusterIPs may share memory with the old service
	copy(ips, spec.ClusterIPs)
	for i, family := range spec.IPFamilies {
		var err error
		switch {
		case ips[i] == "":
			ips[i], err = a.anyAddress(family)
		case !slices.Contains(held, ips[i]):
			err = a.chosenAddress(service, family, ips[i])
		}
		if err != nil {
			return err
		}
	}
	if len(ips) > 0 {
		spec.ClusterIPs, spec.ClusterIP = ips, ips[0]
	}
	return nil
}

// anyAddress allocates any free address. As in kube-apiserver, a dry run returns the first address of a range,
// which is never allocated.
func (a *serviceAllocator) anyAddress(family corev1.IPFamily) (ip string, err error) {
	err = a.withCIDRs(func(all allocation.CIDRs) error {
		cidrs := all.Family(family == corev1.IPv6Protocol)
		if a.op.DryRun && len(cidrs) > 0 {
			ip = cidrs[0].Addr().String()
			return nil
		}
		var ranges []allocation.Range
		for _, cidr := range cidrs {
			ranges = append(ranges, allocation.Addresses(cidr))
		}
		ip, err = a.batch.ClaimAny(a.op.Context, a.addresses, ranges...)
		return err
	})
	if allocation.IsUnavailable(err) {
		err = apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP: %w", err))
	}
	return ip, err
}

// chosenAddress allocates an address that the client chose. As in kube-apiserver, a dry run only checks that a
// range contains the address.
func (a *serviceAllocator) chosenAddress(service *corev1.Service, family corev1.IPFamily, ip string) error {
	address, err := netip.ParseAddr(ip)
	if err != nil {
		return err // validation has already rejected invalid addresses
	}
	err = a.withCIDRs(func(all allocation.CIDRs) error {
		switch cidrs := all.Family(family == corev1.IPv6Protocol); {
		case all.Contains(address):
			return nil
		case a.op.DryRun && len(cidrs) > 0:
			return allocation.UnavailableError(fmt.Sprintf("the provided IP (%s) is not in the valid range. The range of valid IPs is %s", ip, cidrs[0]))
		}
		return allocation.ErrMismatchedRange
	})
	if err == nil && !a.op.DryRun {
		err = a.batch.Claim(a.op.Context, a.addresses, address.String())
	}
	if allocation.IsUnavailable(err) {
		return invalidService(service, field.ErrorList{
			field.Invalid(field.NewPath("spec", "clusterIPs"), service.Spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %s: %v", ip, err)),
		})
	}
	return err
}

// withCIDRs calls do with the cached address ranges. If do returns an error and the address ranges in the
// store differ from the cached ones, withCIDRs calls do again with those in the store.
func (a *serviceAllocator) withCIDRs(do func(allocation.CIDRs) error) error {
	lister := a.op.Env.Store(networkingv1.Resource("servicecidrs")).Storage
	known, err := allocation.ReadCIDRs(a.op.Context, lister, false)
	if err != nil {
		return err
	}
	failure := do(known)
	if failure == nil {
		return nil
	}
	current, err := allocation.ReadCIDRs(a.op.Context, lister, true)
	if err != nil {
		return err
	}
	if slices.Equal(known, current) {
		return failure
	}
	return do(current)
}
