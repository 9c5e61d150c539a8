package quota

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
)

// maxAttempts is the maximum number of attempts of a write while other servers change its quotas. Writers in
// the same server wait for each other instead.
const maxAttempts = 64

// Account returns a storage that charges or credits the quotas of a namespace in the transaction of each
// write. The charge depends only on the objects and on storage.WriteOptions.Subresource. Validating admission
// (Check) has already run, so a write is rejected here only if concurrent writes have used the quota. Account
// returns inner if quotas ignore the resource.
func (l *Ledger) Account(resource schema.GroupResource, inner storage.Interface) storage.Interface {
	if _, ok := evaluatorOf(resource); !ok {
		return inner
	}
	return &account{Interface: inner, ledger: l, resource: resource}
}

type account struct {
	storage.Interface
	ledger   *Ledger
	resource schema.GroupResource
}

// Create implements storage.Interface.
func (a *account) Create(ctx context.Context, obj codec.Object, options storage.WriteOptions) (*codec.Record, error) {
	if options.DryRun || len(a.ledger.records(obj.GetNamespace())) == 0 {
		return a.Interface.Create(ctx, obj, options)
	}
	c := a.charge(obj.GetNamespace())
	defer c.end()
	for {
		ops, err := c.begin(ctx, options.Subresource, obj, nil)
		if err != nil {
			return nil, err
		}
		attempt, candidate := options, obj
		if len(ops) > 0 { // a conflict repeats the write
			attempt.With = append(attempt.With[:len(attempt.With):len(attempt.With)], ops...)
			candidate = obj.DeepCopyObject().(codec.Object)
		}
		record, err := a.Interface.Create(ctx, candidate, attempt)
		if retry, err := c.retry(ctx, err); !retry {
			return record, err
		}
	}
}

// Update implements storage.Interface.
func (a *account) Update(ctx context.Context, name types.NamespacedName, update storage.UpdateFunc, options storage.UpdateOptions) (*codec.Record, error) {
	if options.DryRun || len(a.ledger.records(name.Namespace)) == 0 {
		return a.Interface.Update(ctx, name, update, options)
	}
	c := a.charge(name.Namespace)
	defer c.end()
	charged := func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		c.end() // update may block, and may write
		obj, write, err := update(current)
		if errors.As(err, &storage.Remove{}) {
			obj = nil
		} else if err != nil {
			return obj, write, err
		}
		if write.DryRun {
			return obj, write, err
		}
		ops, beginErr := c.beginUpdate(ctx, write.Subresource, obj, current)
		if beginErr != nil {
			return nil, write, beginErr
		}
		write.With = append(write.With, ops...)
		return obj, write, err
	}
	for {
		record, err := a.Interface.Update(ctx, name, charged, options)
		if retry, err := c.retry(ctx, err); !retry {
			return record, err
		}
	}
}

// Delete implements storage.Interface.
func (a *account) Delete(ctx context.Context, name types.NamespacedName, validate func(codec.Object) error, options storage.UpdateOptions) (*codec.Record, error) {
	return a.Update(ctx, name, func(current *codec.Record) (codec.Object, storage.WriteOptions, error) {
		if current == nil {
			return nil, storage.WriteOptions{}, storage.ErrNotFound
		}
		if validate != nil {
			obj, err := current.Shared()
			if err == nil {
				err = validate(obj)
			}
			if err != nil {
				return nil, storage.WriteOptions{}, err
			}
		}
		return nil, storage.WriteOptions{}, storage.Remove{}
	}, options)
}

// charge is the change of the quotas of a namespace by one write.
type charge struct {
	*account
	namespace string
	attempts  int
	unlock    func() // nil if the namespace is not locked
}

func (a *account) charge(namespace string) *charge { return &charge{account: a, namespace: namespace} }

// end releases the lock of the namespace.
func (c *charge) end() {
	if c.unlock != nil {
		c.unlock()
		c.unlock = nil
	}
}

// beginUpdate calls begin for an update. A nil obj removes the object.
func (c *charge) beginUpdate(ctx context.Context, subresource string, obj codec.Object, current *codec.Record) ([]*storage.Op, error) {
	if current == nil {
		return c.begin(ctx, subresource, obj, nil)
	}
	old, err := current.Shared()
	if err != nil {
		return nil, err
	}
	return c.begin(ctx, subresource, obj, old)
}

// begin returns the quota updates for a write of obj over old through a subresource, and locks the namespace
// if the write changes the usage of a quota. An error rejects the write.
func (c *charge) begin(ctx context.Context, subresource string, obj, old codec.Object) ([]*storage.Op, error) {
	w := &Write{Resource: c.resource, Subresource: subresource, Namespace: c.namespace, Object: obj, Old: old}
	m, _ := measure(ctx, w)
	if !c.changesUsage(&m) {
		return nil, nil
	}
	if c.unlock == nil {
		var err error
		if c.unlock, err = c.ledger.Lock(ctx, c.namespace); err != nil {
			return nil, err
		}
	}
	if err := c.check(&m); err != nil {
		if refreshErr := c.ledger.refresh(ctx, c.namespace); refreshErr != nil {
			return nil, refreshErr
		}
		if err = c.check(&m); err != nil {
			return nil, c.denied(obj, err)
		}
	}
	return c.ops(ctx, &m)
}

// changesUsage reports whether a write changes the usage of a quota.
func (c *charge) changesUsage(m *writeUsage) bool {
	for _, quota := range c.ledger.Quotas(c.namespace) {
		if !c.isItself(m, quota) && m.change(quota) != nil {
			return true
		}
	}
	return false
}

// isItself reports whether the written object is the quota itself. A quota is not charged for itself, because
// a transaction cannot write it twice.
func (c *charge) isItself(m *writeUsage, quota *corev1.ResourceQuota) bool {
	return c.resource == Resource() && (m.Object != nil && m.Object.GetName() == quota.Name || m.Old != nil && m.Old.GetName() == quota.Name)
}

// check returns an error if a write exceeds a quota.
func (c *charge) check(m *writeUsage) error {
	if m.Object == nil || !m.enforces(m.Old == nil, m.Subresource) {
		return nil
	}
	for _, quota := range c.ledger.Quotas(c.namespace) {
		if err := exceeds(quota, m.change(quota)); err != nil {
			return err
		}
	}
	return nil
}

// denied returns the error for a write of obj. obj is not nil, because check permits all removals.
func (c *charge) denied(obj codec.Object, reason error) error {
	err := error(apierrors.NewForbidden(c.resource, obj.GetName(), reason))
	if f := c.ledger.config.WrapDenied; f != nil {
		err = f(err)
	}
	return err
}

// ops returns the writes of the quotas that change.
func (c *charge) ops(ctx context.Context, m *writeUsage) ([]*storage.Op, error) {
	var ops []*storage.Op
	for _, record := range c.ledger.records(c.namespace) {
		quota := c.ledger.read(record)
		if quota == nil || c.isItself(m, quota) {
			continue
		}
		change := m.change(quota)
		if change == nil {
			continue
		}
		charged, err := c.ledger.charged(quota, change)
		if err != nil {
			return nil, err
		}
		op, err := c.ledger.config.Stored.Prepare(ctx, storage.OpRequest{Current: record, Object: charged})
		if err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, nil
}

// charged returns a quota with changed usage. Unknown usage stays unknown until the first count.
func (l *Ledger) charged(quota *corev1.ResourceQuota, change corev1.ResourceList) (codec.Object, error) {
	charged := quota.DeepCopy()
	for name, quantity := range change {
		used, ok := charged.Status.Used[name]
		if !ok {
			continue
		}
		used.Add(quantity)
		if used.Sign() < 0 {
			used = number(0) // another client wrote a smaller value; the recount corrects it
		}
		charged.Status.Used[name] = used
	}
	if l.config.RecordOwnership == nil {
		return charged, nil
	}
	return l.config.RecordOwnership(quota, charged)
}

// retry reports whether a write must be retried because another server has changed a quota of its namespace.
// If so, retry refreshes the quotas; otherwise it returns the error of the write.
func (c *charge) retry(ctx context.Context, err error) (bool, error) {
	var conflict *storage.OpConflictError
	if !errors.As(err, &conflict) || conflict.Name.Namespace != c.namespace {
		return false, err
	}
	if c.attempts++; c.attempts == maxAttempts {
		return false, err
	}
	if refreshErr := c.ledger.refresh(ctx, c.namespace); refreshErr != nil {
		return false, refreshErr
	}
	return true, nil
}
