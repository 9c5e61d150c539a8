package allocation

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
)

// Batch collects the allocations and releases for one write of a service. It is not safe for concurrent use.
type Batch struct {
	// Service is the written service.
	Service types.NamespacedName
	// Version is the resource version of the existing service. It is "" on creation.
	Version string
	// DryRun makes Ops return no operations.
	DryRun bool
	ops    []*storage.Op
	// claimed contains the allocated numbers, and avoided the numbers that ClaimAny must not choose. touched
	// contains one number that was allocated or released for each kind of lock.
	claimed map[lockName]bool
	avoided map[lockName]bool
	touched map[*Locks]string
}

type lockName struct {
	locks *Locks
	name  string
}

func (b *Batch) has(locks *Locks, name string) bool { return b.claimed[lockName{locks, name}] }

// Claim allocates a number that the client chose. If the number is already allocated, the error is an
// UnavailableError.
func (b *Batch) Claim(ctx context.Context, locks *Locks, name string) error {
	if b.has(locks, name) {
		return locks.taken
	}
	allocated, err := locks.has(ctx, name, newest)
	if err != nil {
		return err
	}
	if allocated {
		return locks.taken
	}
	return b.add(ctx, locks, name)
}

// Avoid excludes a number from ClaimAny, because the client chose it and it will be claimed later.
func (b *Batch) Avoid(locks *Locks, name string) {
	if b.avoided == nil {
		b.avoided = map[lockName]bool{}
	}
	b.avoided[lockName{locks, name}] = true
}

// ClaimAny allocates any number from one of the ranges and returns its name. It returns ErrFull if all numbers
// are allocated or avoided.
func (b *Batch) ClaimAny(ctx context.Context, locks *Locks, ranges ...Range) (string, error) {
	name, err := locks.free(ctx, ranges, func(name string) bool { return b.has(locks, name) || b.avoided[lockName{locks, name}] })
	if err != nil {
		return "", err
	}
	return name, b.add(ctx, locks, name)
}

func (b *Batch) add(ctx context.Context, locks *Locks, name string) error {
	if b.claimed == nil {
		b.claimed = map[lockName]bool{}
	}
	b.claimed[lockName{locks, name}] = true
	if locks.bitmap.set(name, true) {
		return nil
	}
	return b.prepare(ctx, locks, name, storage.OpRequest{Object: locks.new(ctx, name, b.Service)})
}

// Release releases a number of the service. The lock was written together with the service or before it, so
// the lock exists in every store state that is at least as new as the service. Release does not change locks
// that other services own. It returns storage errors.
func (b *Batch) Release(ctx context.Context, locks *Locks, name string) error {
	locks.bitmap.set(name, false)
	lock, err := locks.find(ctx, name, b.Version)
	if err != nil || lock == nil {
		return err
	}
	object, err := codec.SharedAs[*networkingv1.IPAddress](lock)
	if err != nil {
		return err
	}
	if holder, ok := Owner(object); !ok || holder != b.Service {
		return nil
	}
	return b.prepare(ctx, locks, name, storage.OpRequest{Current: lock})
}

func (b *Batch) prepare(ctx context.Context, locks *Locks, name string, req storage.OpRequest) error {
	if b.DryRun {
		return nil
	}
	if b.touched == nil {
		b.touched = map[*Locks]string{}
	}
	b.touched[locks] = name
	op, err := locks.storage.Prepare(ctx, req)
	b.ops = append(b.ops, op)
	return err
}

// Refresh updates the cache of the locks to the newest state of the store. It must be called after a failed
// commit. Otherwise the cache might lack a lock, and the next attempt might choose the same number again.
func (b *Batch) Refresh(ctx context.Context) {
	for locks, name := range b.touched {
		_, _ = locks.find(ctx, name, newest) // the next attempt returns the same error
	}
}

// Ops returns the operations that must be committed together with the write of the service. bitmap may be nil.
// The caller must not modify the slice. Ops returns an error if it cannot prepare the write of the bitmap.
func (b *Batch) Ops(ctx context.Context, bitmap *Bitmap) ([]*storage.Op, error) {
	if b.DryRun || bitmap == nil || !bitmap.changed {
		return b.ops, nil
	}
	op, err := bitmap.op(ctx)
	return append(b.ops, op), err
}
