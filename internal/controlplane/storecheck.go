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
)

// StoreCheck checks the dependencies between objects of a store that no server uses: each address
// and port of a service is allocated to this service only, and all allocations belong to a service.
type StoreCheck struct {
	// Transformer reads values as Env.Transformer; nil: they are plain text.
	Transformer func(schema.GroupResource) storage.Transformer

	keys        *Keys
	unreadable  []string
	count       int // number of unreadable ones
	prefix      string
	collections []checked
	allocations allocation.Check
}

// checked is a collection that a StoreCheck looks at.
type checked struct {
	path string
	kind *codec.Kind
	take func(name string, obj codec.Object) error
}

// NewStoreCheck returns a StoreCheck of the objects below a prefix of keys.
func NewStoreCheck(prefix string) (*StoreCheck, error) {
	env := &builtin.Env{}
	if _, err := builtin.Build(env, all.Groups()); err != nil {
		return nil, err
	}
	c := &StoreCheck{keys: NewKeys(prefix), prefix: "/" + strings.Trim(prefix, "/") + "/"}
	add := func(resource schema.GroupResource, take func(name string, obj codec.Object) error) {
		spec := env.Spec(resource)
		c.collections = append(c.collections, checked{spec.Path + "/", spec.Kind, take})
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

// Entry processes an entry of the store. It ignores irrelevant entries.
func (c *StoreCheck) Entry(ctx context.Context, entry *kv.Entry) error {
	resource, known := c.keys.Resource(entry.Key)
	if !known {
		return nil
	}
	value, _, err := c.transformer(resource).FromStorage(ctx, entry.Value, entry.Key)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		if c.count++; c.count <= mostFaults {
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
	path, ours := strings.CutPrefix(entry.Key, c.prefix)
	if !ours {
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

// mostFaults is how many faults are listed.
const mostFaults = 10

// Err returns the inconsistencies after all entries were processed.
func (c *StoreCheck) Err() error {
	if c.count > 0 { // the allocations are then unknown
		if more := c.count - len(c.unreadable); more > 0 {
			c.unreadable = append(c.unreadable, fmt.Sprintf("and %d more", more))
		}
		return fmt.Errorf("%d objects cannot be decrypted: %s", c.count, strings.Join(c.unreadable, "; "))
	}
	faults := c.allocations.Inconsistencies()
	if len(faults) == 0 {
		return nil
	}
	if more := len(faults) - mostFaults; more > 0 {
		faults = append(faults[:mostFaults], fmt.Sprintf("and %d more", more))
	}
	return errors.New("the allocations of service addresses and ports are inconsistent: " + strings.Join(faults, "; "))
}
