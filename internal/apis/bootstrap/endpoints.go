package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/storage"
)

// leaseTime is the duration of a server's lease. The server renews the lease every runInterval. Both values are
// those of kube-apiserver.
const leaseTime = 15 * time.Second

// skipMirrorLabel prevents controllers from mirroring endpoints to endpoint slices.
const skipMirrorLabel = "endpointslice.kubernetes.io/skip-mirror"

// endpoints reconciles the endpoints of default/kubernetes with the addresses of all servers that hold a lease.
// If servers share a store, each of them does this and writes the same endpoints.
type endpoints struct {
	bootstrap *Bootstrap
	mu        struct {
		sync.Mutex
		withdrawn bool
		// published is set after the ports have been corrected once. Afterwards, they are not changed, so that
		// servers with different ports do not overwrite each other's changes forever.
		published bool
	}
}

// publish renews the lease of this server and sets the endpoints to the addresses in all leases. It does
// nothing after withdraw, or if this server has no address.
func (e *endpoints) publish(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	config := &e.bootstrap.config
	if e.mu.withdrawn || !config.Endpoint.IsValid() {
		return nil
	}
	addresses := []string{config.Endpoint.String()}
	if config.Leases != nil {
		var err error
		if err = renewLease(ctx, config.Leases, addresses[0], addressOf(addresses[0])); err != nil {
			return err
		}
		if addresses, err = leased(ctx, config.Leases); err != nil {
			return err
		}
	}
	if err := e.write(ctx, addresses); err != nil {
		return err
	}
	e.mu.published = true
	return nil
}

// withdraw removes the lease of this server and its address from the endpoints. The endpoints do not change if
// no other server has a lease.
func (e *endpoints) withdraw(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	config := &e.bootstrap.config
	e.mu.withdrawn = true
	if config.Leases == nil || !config.Endpoint.IsValid() {
		return nil
	}
	_, err := config.Leases.Delete(ctx, types.NamespacedName{Name: config.Endpoint.String()}, nil, storage.UpdateOptions{})
	if err != nil && !errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("delete the lease of this server: %w", err)
	}
	others, err := leased(ctx, config.Leases)
	if err != nil || len(others) == 0 {
		return err
	}
	return e.write(ctx, others)
}

// write sets the endpoints to addresses, which must not be empty.
func (e *endpoints) write(ctx context.Context, addresses []string) error {
	if len(addresses) == 0 {
		return errors.New("no server has a lease")
	}
	slices.Sort(addresses)
	b, meta := e.bootstrap, metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: serviceName}
	wanted := &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{
		Ports: []corev1.EndpointPort{{Name: servicePortName, Port: int32(b.config.Port), Protocol: corev1.ProtocolTCP}},
	}}}
	wanted.Labels = map[string]string{skipMirrorLabel: "true"}
	slice := e.slice(meta, addresses)
	for _, address := range addresses {
		wanted.Subsets[0].Addresses = append(wanted.Subsets[0].Addresses, corev1.EndpointAddress{IP: address})
	}
	return b.ensure(ctx,
		set{resource: corev1.SchemeGroupVersion.WithResource("endpoints"), objects: []codec.Object{wanted}, revise: e.reviseEndpoints()},
		set{resource: discoveryv1.SchemeGroupVersion.WithResource("endpointslices"), objects: []codec.Object{slice}, revise: e.reviseSlice(), replace: otherAddressType})
}

func (e *endpoints) slice(meta metav1.ObjectMeta, addresses []string) *discoveryv1.EndpointSlice {
	name, protocol, port, ready := servicePortName, corev1.ProtocolTCP, int32(e.bootstrap.config.Port), true
	meta.Labels = map[string]string{discoveryv1.LabelServiceName: serviceName}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressType(family(e.bootstrap.config.Endpoint)),
		Ports: []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port}},
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	return slice
}

func (e *endpoints) reviseEndpoints() func(existing, wanted codec.Object) bool {
	keepPorts := e.mu.published
	return func(existing, wanted codec.Object) bool {
		is, should := existing.(*corev1.Endpoints), *wanted.(*corev1.Endpoints).DeepCopy()
		if keepPorts && len(is.Subsets) == 1 {
			should.Subsets[0].Ports = is.Subsets[0].Ports
		}
		changed := reviseMeta(is, &should)
		if !equality.Semantic.DeepEqual(is.Subsets, should.Subsets) {
			is.Subsets, changed = should.Subsets, true
		}
		return changed
	}
}

func (e *endpoints) reviseSlice() func(existing, wanted codec.Object) bool {
	keepPorts := e.mu.published
	return func(existing, wanted codec.Object) bool {
		is, should := existing.(*discoveryv1.EndpointSlice), *wanted.(*discoveryv1.EndpointSlice).DeepCopy()
		if keepPorts && len(is.Ports) > 0 {
			should.Ports = is.Ports
		}
		changed := reviseMeta(is, &should)
		if !equality.Semantic.DeepEqual(is.Endpoints, should.Endpoints) || !equality.Semantic.DeepEqual(is.Ports, should.Ports) {
			is.Endpoints, is.Ports, changed = should.Endpoints, should.Ports, true
		}
		return changed
	}
}

// otherAddressType reports whether the address types of two slices differ. The address type is immutable, so
// such a slice must be replaced.
func otherAddressType(existing, wanted codec.Object) bool {
	return existing.(*discoveryv1.EndpointSlice).AddressType != wanted.(*discoveryv1.EndpointSlice).AddressType
}

// addressOf returns a function that sets the address in a lease.
func addressOf(address string) func(*corev1.Endpoints) {
	return func(lease *corev1.Endpoints) {
		lease.Subsets = []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: address}}}}
	}
}

// renewLease creates a lease or renews it for leaseTime. describe sets the content of the lease. As in
// kube-apiserver, the lease is an Endpoints object, so that this server and kube-apiserver can share a store.
func renewLease(ctx context.Context, leases storage.Interface, name string, describe func(*corev1.Endpoints)) error {
	_, err := leases.Update(ctx, types.NamespacedName{Name: name}, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		lease := &corev1.Endpoints{}
		if current != nil {
			obj, err := current.Object()
			if err != nil {
				return nil, storage.WriteOptions{}, err
			}
			lease = obj.(*corev1.Endpoints)
		}
		describe(lease)
		lease.Generation++ // an unchanged object would not be written, and its TTL would not be renewed
		return lease, storage.WriteOptions{TTL: leaseTime}, nil
	}, storage.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("renew the lease of %s: %w", name, err)
	}
	return nil
}

// leased returns the addresses in all leases that have not expired.
func leased(ctx context.Context, leases storage.Interface) ([]string, error) {
	list, err := leases.List(ctx, "", rest.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the leases of servers: %w", err)
	}
	var addresses []string
	for record, err := range list.Items {
		if err != nil {
			return nil, fmt.Errorf("list the leases of servers: %w", err)
		}
		obj, err := record.Shared()
		if err != nil {
			return nil, err
		}
		if lease, ok := obj.(*corev1.Endpoints); ok && len(lease.Subsets) > 0 && len(lease.Subsets[0].Addresses) > 0 {
			addresses = append(addresses, lease.Subsets[0].Addresses[0].IP)
		}
	}
	return addresses, nil
}
