package controlplane

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/apis/builtin/all"
	"mainstay.dev/mainstay/internal/apis/builtin/core"
	"mainstay.dev/mainstay/internal/apis/builtin/core/allocation"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/kv/overlay"
)

// StoreCheck checks dependencies between the objects of a store while no server uses the store. Each address
// and port of a service must be allocated to this service only, and each allocation must belong to a service.
// It is not safe for concurrent use.
type StoreCheck struct {
	// Transformer returns the transformer that decrypts the values of a resource, like Storage.Transformer. It
	// must be set before the first call of Entry. nil means that values are in plain text.
	Transformer func(schema.GroupResource) storage.Transformer

	keys        *Keys
	unreadable  []string
	count       int // number of objects that cannot be decrypted, including objects that unreadable does not list
	prefix      string
	collections []checkedCollection
	allocations allocation.Check
}

// checkedCollection is a collection whose objects a StoreCheck reads.
type checkedCollection struct {
	path string
	kind *codec.Kind
	take func(name string, obj codec.Object) error
}

// NewStoreCheck returns a StoreCheck for the keys below a prefix, such as "/registry". It returns
// an error if the built-in resources are declared incorrectly.
func NewStoreCheck(prefix string) (*StoreCheck, error) {
	env := &builtin.Env{}
	if _, err := builtin.Build(env, all.Groups()); err != nil {
		return nil, err
	}
	c := &StoreCheck{keys: NewKeys(prefix), prefix: "/" + strings.Trim(prefix, "/") + "/"}
	add := func(resource schema.GroupResource, take func(name string, obj codec.Object) error) {
		spec := env.Spec(resource)
		c.collections = append(c.collections, checkedCollection{spec.Path + "/", spec.Kind, take})
	}
	add(corev1.Resource("services"), func(_ string, obj codec.Object) error {
		service := obj.(*corev1.Service)
		addresses, ports := core.Allocations(service)
		c.allocations.Service(types.NamespacedName{Namespace: service.Namespace, Name: service.Name}, addresses, ports)
		return nil
	})
	add(networkingv1.Resource("ipaddresses"), func(_ string, obj codec.Object) error {
		c.allocations.Address(obj.(*networkingv1.IPAddress))
		return nil
	})
	add(corev1.Resource("nodeports"), func(_ string, obj codec.Object) error {
		c.allocations.Port(obj.(*networkingv1.IPAddress))
		return nil
	})
	add(corev1.Resource("rangeallocations"), func(name string, obj codec.Object) error {
		if name != allocation.BitmapName {
			return nil
		}
		bitmap, err := allocation.NewBitmap(obj.(*corev1.RangeAllocation))
		c.allocations.Bitmap(bitmap)
		return err
	})
	return c, nil
}

// Entry processes an entry of the store. It must be called for all entries. It returns an error for an object
// that cannot be decoded, and the error of ctx. Objects that cannot be decrypted are reported by Err.
func (c *StoreCheck) Entry(ctx context.Context, entry *kv.Entry) error {
	resource, known := c.keys.Resource(entry.Key)
	if !known || overlay.IsTombstone(entry.Value) {
		return nil
	}
	value, _, err := c.transformer(resource).FromStorage(ctx, entry.Value, entry.Key)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		if c.count++; c.count <= maxListedFaults {
			c.unreadable = append(c.unreadable, fmt.Sprintf("%s: %v", entry.Key, err))
		}
		return nil
	}
	return c.take(entry, value)
}

func (c *StoreCheck) transformer(resource schema.GroupResource) storage.Transformer {
	if c.Transformer == nil {
		return storage.Identity{}
	}
	return c.Transformer(resource)
}

func (c *StoreCheck) take(entry *kv.Entry, value []byte) error {
	path, found := strings.CutPrefix(entry.Key, c.prefix)
	if !found {
		return nil
	}
	for _, collection := range c.collections {
		name, found := strings.CutPrefix(path, collection.path)
		if !found {
			continue
		}
		obj, err := codec.NewRecord(collection.kind, types.NamespacedName{Name: name}, value, int64(entry.Modified)).Object()
		if err == nil {
			err = collection.take(name, obj)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", entry.Key, err)
		}
		return nil
	}
	return nil
}

// maxListedFaults is the maximum number of faults in an error.
const maxListedFaults = 10

// Err returns an error that lists the inconsistencies, or nil. It must be called after the last Entry.
func (c *StoreCheck) Err() error {
	if c.count > 0 { // the unreadable objects might contain allocations
		if more := c.count - len(c.unreadable); more > 0 {
			c.unreadable = append(c.unreadable, fmt.Sprintf("and %d more", more))
		}
		return fmt.Errorf("%d objects cannot be decrypted: %s", c.count, strings.Join(c.unreadable, "; "))
	}
	faults := c.allocations.Inconsistencies()
	if len(faults) == 0 {
		return nil
	}
	if more := len(faults) - maxListedFaults; more > 0 {
		faults = append(faults[:maxListedFaults], fmt.Sprintf("and %d more", more))
	}
	return errors.New("the allocations of service addresses and ports are inconsistent: " + strings.Join(faults, "; "))
}
