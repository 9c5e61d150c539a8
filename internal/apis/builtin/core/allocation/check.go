package allocation

import (
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Check compares the addresses and ports of services with their locks. The zero value is ready to
// use. Services and locks can be added in any order. It is not safe for concurrent use.
type Check struct {
	addresses, ports account
	bitmap           *Bitmap
}

// account contains the services that use numbers and the services that own the locks, by number.
type account struct {
	held, allocated map[string]types.NamespacedName
	found           []string
}

// Service adds a service with its addresses and ports.
func (c *Check) Service(service types.NamespacedName, addresses, ports []string) {
	c.addresses.hold(service, addresses)
	c.ports.hold(service, ports)
}

func (a *account) hold(service types.NamespacedName, numbers []string) {
	if a.held == nil {
		a.held = map[string]types.NamespacedName{}
	}
	for _, number := range numbers {
		if other, taken := a.held[number]; taken && other != service {
			a.found = append(a.found, fmt.Sprintf("%s is of the services %s and %s", number, other, service))
		}
		a.held[number] = service
	}
}

// Address adds an IPAddress object. It ignores objects that were not created for a service.
func (c *Check) Address(lock *networkingv1.IPAddress) {
	if lock.Labels[networkingv1.LabelManagedBy] == ManagedBy {
		c.addresses.allocate(lock)
	}
}

// Port adds the lock of a port.
func (c *Check) Port(lock *networkingv1.IPAddress) { c.ports.allocate(lock) }

// Bitmap adds the bitmap of kube-apiserver, which replaces the locks of ports.
func (c *Check) Bitmap(bitmap *Bitmap) { c.bitmap = bitmap }

func (a *account) allocate(lock *networkingv1.IPAddress) {
	if a.allocated == nil {
		a.allocated = map[string]types.NamespacedName{}
	}
	a.allocated[lock.Name], _ = Owner(lock)
}

// Inconsistencies returns a description of each inconsistency. Inconsistencies should occur only if another
// program has written to the store.
func (c *Check) Inconsistencies() []string {
	found := c.addresses.compare(nil)
	return append(found, c.ports.compare(c.bitmap)...)
}

// compare returns the inconsistencies of an account. bitmap replaces the locks in its range; it may be nil.
func (a *account) compare(bitmap *Bitmap) []string {
	var found []string
	for number, service := range a.held {
		switch allocated, known := bitmap.Has(number); {
		case known && !allocated, !known && a.allocated[number] == (types.NamespacedName{}):
			found = append(found, fmt.Sprintf("%s of the service %s is not allocated", number, service))
		case !known && a.allocated[number] != service:
			found = append(found, fmt.Sprintf("%s of the service %s is allocated to %s", number, service, a.allocated[number]))
		}
	}
	for number, service := range a.allocated {
		if _, known := bitmap.Has(number); !known && a.held[number] == (types.NamespacedName{}) {
			found = append(found, fmt.Sprintf("%s is allocated to the service %s, which does not have it", number, service))
		}
	}
	slices.Sort(found)
	return append(slices.Clone(a.found), found...)
}
