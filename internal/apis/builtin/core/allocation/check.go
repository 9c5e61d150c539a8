package allocation

import (
	"fmt"
	"slices"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Check compares what services have with what is allocated to them. Its zero value is
// ready for all services and locks of a store, in any order.
type Check struct {
	addresses, ports account
	bitmap           *Bitmap
}

// account is who has a number, and to whom it is allocated.
type account struct {
	held, allocated map[string]types.NamespacedName
	faults          []string
}

// Service takes in a service with its addresses and ports.
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
			a.faults = append(a.faults, fmt.Sprintf("%s is of the services %s and %s", number, other, service))
		}
		a.held[number] = service
	}
}

// Address takes in an IPAddress object. One that no server made for a service is left
// alone.
func (c *Check) Address(lock *networkingv1.IPAddress) {
	if lock.Labels[networkingv1.LabelManagedBy] == Manager {
		c.addresses.allocate(lock)
	}
}

// Port takes in the lock of a port.
func (c *Check) Port(lock *networkingv1.IPAddress) { c.ports.allocate(lock) }

// Bitmap takes in kube-apiserver's account of ports, which counts instead.
func (c *Check) Bitmap(bitmap *Bitmap) { c.bitmap = bitmap }

func (a *account) allocate(lock *networkingv1.IPAddress) {
	if a.allocated == nil {
		a.allocated = map[string]types.NamespacedName{}
	}
	a.allocated[lock.Name], _ = Holder(lock)
}

// Faults returns what is wrong: nothing, unless somebody else has written to the store.
func (c *Check) Faults() []string {
	faults := c.addresses.compare(nil)
	return append(faults, c.ports.compare(c.bitmap)...)
}

// compare returns what is wrong with an account.
func (a *account) compare(bitmap *Bitmap) []string {
	var faults []string
	for number, service := range a.held {
		switch allocated, known := bitmap.Has(number); {
		case known && !allocated, !known && a.allocated[number] == (types.NamespacedName{}):
			faults = append(faults, fmt.Sprintf("%s of the service %s is not allocated", number, service))
		case !known && a.allocated[number] != service:
			faults = append(faults, fmt.Sprintf("%s of the service %s is allocated to %s", number, service, a.allocated[number]))
		}
	}
	for number, service := range a.allocated {
		if _, known := bitmap.Has(number); !known && a.held[number] == (types.NamespacedName{}) {
			faults = append(faults, fmt.Sprintf("%s is allocated to the service %s, which does not have it", number, service))
		}
	}
	slices.Sort(faults)
	return append(slices.Clone(a.faults), faults...)
}
