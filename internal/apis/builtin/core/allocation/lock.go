package allocation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage"
)

// UnavailableError explains why a number cannot be allocated. Its messages are those of kube-apiserver. All
// other errors in this package are storage errors.
type UnavailableError string

func (r UnavailableError) Error() string { return string(r) }

const (
	ErrFull            = UnavailableError("range is full")
	ErrAddressTaken    = UnavailableError("provided IP is already allocated")
	ErrPortTaken       = UnavailableError("provided port is already allocated")
	ErrMismatchedRange = UnavailableError("the provided network does not match the current range")
)

// IsUnavailable reports whether err wraps an UnavailableError.
func IsUnavailable(err error) bool { return errors.As(err, new(UnavailableError)) }

// Locks stores one object per allocated number. The unique key of the object is its lock, and its
// Spec.ParentRef is the owner. The locks of ports also have the type IPAddress.
type Locks struct {
	storage storage.Interface
	new     func(ctx context.Context, name string, service types.NamespacedName) *networkingv1.IPAddress
	taken   error
	// bitmap replaces the locks of the ports in its range. It is nil if the store has no bitmap.
	bitmap *Bitmap
}

// AddressLocks returns the locks of addresses, which are the IPAddress objects in storage.
func AddressLocks(storage storage.Interface) *Locks {
	return &Locks{storage: storage, new: newAddress, taken: ErrAddressTaken}
}

// PortLocks returns the locks of ports, which are not API objects. bitmap may be nil.
func PortLocks(storage storage.Interface, bitmap *Bitmap) *Locks {
	return &Locks{storage: storage, new: newLock, taken: ErrPortTaken, bitmap: bitmap}
}

// Resource versions for reads: cached reads from the cache, and newest reads from the store.
const (
	cached = "0"
	newest = ""
)

// find returns the lock of a number, or nil if the number is not locked.
func (l *Locks) find(ctx context.Context, name, version string) (*codec.Record, error) {
	record, err := l.storage.Get(ctx, types.NamespacedName{Name: name}, storage.ReadOptions{ResourceVersion: version})
	if errors.Is(err, storage.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the allocation of %s: %w", name, err)
	}
	return record, nil
}

// has reports whether a number is allocated.
func (l *Locks) has(ctx context.Context, name, version string) (bool, error) {
	if allocated, known := l.bitmap.Has(name); known {
		return allocated, nil
	}
	lock, err := l.find(ctx, name, version)
	return lock != nil, err
}

// probes is the number of random elements of a range that are tried before all locks are read. If three
// quarters of a range are allocated, 16 probes find a free element with a probability of 99 %.
const probes = 16

// free returns the name of a free number, preferably a random number from the dynamic band of one of the
// ranges. It returns ErrFull if all numbers are allocated according to the store.
func (l *Locks) free(ctx context.Context, ranges []Range, claimed func(name string) bool) (string, error) {
	for _, r := range ranges {
		for range probes {
			name, ok := r.random()
			if !ok || claimed(name) {
				continue
			}
			if allocated, err := l.has(ctx, name, cached); err != nil || !allocated {
				return name, err
			}
		}
	}
	allocated, err := l.all(ctx)
	if err != nil {
		return "", err
	}
	for _, r := range ranges {
		for name := range r.candidates() {
			if !claimed(name) && !allocated(name) {
				return name, nil
			}
		}
	}
	return "", ErrFull
}

// all returns a function that reports whether a number is allocated. The function uses the state that the
// store has when all is called.
func (l *Locks) all(ctx context.Context) (allocated func(name string) bool, err error) {
	list, err := l.storage.List(ctx, "", rest.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the allocations: %w", err)
	}
	names := map[string]bool{}
	for record, err := range list.Items {
		if err != nil {
			return nil, fmt.Errorf("list the allocations: %w", err)
		}
		names[record.Name().Name] = true
	}
	return func(name string) bool {
		if allocated, known := l.bitmap.Has(name); known {
			return allocated
		}
		return names[name]
	}, nil
}

// newLock returns the lock of a number for a service.
func newLock(ctx context.Context, name string, service types.NamespacedName) *networkingv1.IPAddress {
	sim := simulation.From(ctx)
	return &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: sim.UID("allocation", name), CreationTimestamp: metav1.NewTime(sim.Now().Truncate(time.Second))},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{
			Resource: services, Namespace: service.Namespace, Name: service.Name,
		}},
	}
}

// services is the resource of the objects that own locks.
const services = "services"

// ManagedBy is the value of the managed-by label on IPAddress objects that were created for services.
const ManagedBy = "ipallocator.k8s.io"

// newAddress returns the same IPAddress object that kube-apiserver would create.
func newAddress(ctx context.Context, name string, service types.NamespacedName) *networkingv1.IPAddress {
	address := newLock(ctx, name, service)
	address.Labels = map[string]string{networkingv1.LabelIPAddressFamily: string(familyOf(name)), networkingv1.LabelManagedBy: ManagedBy}
	address.ManagedFields = []metav1.ManagedFieldsEntry{{
		Manager: "kube-apiserver", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: networkingv1.SchemeGroupVersion.String(),
		Time: &address.CreationTimestamp, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(addressFields)},
	}}
	return address
}

// addressFields contains the managed fields of newAddress, which are always the same.
const addressFields = `{"f:metadata":{"f:labels":{".":{},"f:ipaddress.kubernetes.io/ip-family":{},"f:ipaddress.kubernetes.io/managed-by":{}}},` +
	`"f:spec":{"f:parentRef":{".":{},"f:name":{},"f:namespace":{},"f:resource":{}}}}`

func familyOf(address string) corev1.IPFamily {
	if strings.Contains(address, ":") {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// Owner returns the service that owns a lock, or false if the owner is not a service.
func Owner(lock *networkingv1.IPAddress) (types.NamespacedName, bool) {
	parent := lock.Spec.ParentRef
	if parent == nil || parent.Group != "" || parent.Resource != services {
		return types.NamespacedName{}, false
	}
	return types.NamespacedName{Namespace: parent.Namespace, Name: parent.Name}, true
}
