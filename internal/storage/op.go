package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/simulation"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/storage/origin"
)

// OpRequest describes the write of one object in a transaction that also writes other objects.
type OpRequest struct {
	// Current is the record that must still be the object's current record at the commit. It must come from
	// this storage. nil requires that the object does not exist.
	Current *codec.Record
	// Object is the object to store; the storage takes ownership of it. nil deletes Current.
	Object codec.Object
	// TTL is the time after which the object is removed; 0 means never.
	TTL time.Duration
	// Unchanged, if not nil, is the version that an object must have at the commit. The object is not
	// written, and all other fields except Recheck are ignored.
	Unchanged *Version
	// Recheck is called with the object's current record, or with nil if the object does not exist, if the
	// object is not Unchanged at the commit. If it returns an error, the write fails with this error. Otherwise,
	// the commit is repeated and requires the version of the record. If Recheck is nil, the write fails with an
	// *OpConflictError. An Op with Recheck has no effect on writes to other backends.
	Recheck func(*codec.Record) error
}

// Version identifies an object at a revision.
type Version struct {
	Name     types.NamespacedName
	Revision int64
}

// Op is a prepared write, which is committed together with the write of another object: see
// WriteOptions.With. It must be used only once, and not concurrently.
type Op struct {
	name    types.NamespacedName
	backend kv.Backend
	op      kv.Op
	record  *uncommittedRecord // nil for a check
	// recheck is called with the current entry of a changed object; see OpRequest.Recheck. It may be nil.
	recheck func(context.Context, *kv.Entry) error
	// observer is notified after the commit. It may be nil.
	observer *Observer
}

// Name returns the name of the object that is written or checked.
func (o *Op) Name() types.NamespacedName { return o.name }

// OpConflictError reports that an object of WriteOptions.With does not have the revision that its OpRequest
// requires. Nothing in this transaction was written, but earlier transactions on other backends stay
// committed; see WriteOptions.With.
type OpConflictError struct{ Name types.NamespacedName }

func (e *OpConflictError) Error() string {
	return fmt.Sprintf("%s, which is written together with the object, has changed", e.Name)
}

// errOpObject is returned for an OpRequest with neither Object nor Current.
var errOpObject = errors.New("an OpRequest needs an Object or a Current record")

// Prepare implements Interface.
func (s *Store) Prepare(ctx context.Context, req OpRequest) (*Op, error) {
	o := &Op{backend: s.backend}
	switch {
	case req.Unchanged != nil:
		return s.prepareCheck(req.Unchanged, req.Recheck)
	case req.Object != nil:
		o.name = types.NamespacedName{Namespace: req.Object.GetNamespace(), Name: req.Object.GetName()}
	case req.Current != nil:
		o.name = req.Current.Name()
	default:
		return nil, errOpObject
	}
	key, err := s.Key(o.name)
	if err != nil {
		return nil, err
	}
	o.op = kv.Op{Key: key, Kind: kv.OpDelete, TTL: req.TTL}
	if req.Current != nil {
		o.op.Expect = kv.Revision(req.Current.Revision())
	}
	if req.Object == nil {
		o.record = &uncommittedRecord{kind: s.kind, before: req.Current}
		o.op.Note = o.record
		return o, nil
	}
	if req.Current == nil {
		req.Object.SetResourceVersion("")
	}
	write, err := s.prepare(ctx, key, req.Object)
	if err != nil {
		return nil, err
	}
	if err := write.record.convertBack(ctx, o.name); err != nil {
		return nil, err
	}
	o.record = write.record
	o.op.Kind, o.op.Value, o.op.Note = kv.OpPut, write.data, write.record
	return o, nil
}

// prepareCheck returns an Op that requires a version of an object, without a record.
func (s *Store) prepareCheck(version *Version, recheck func(*codec.Record) error) (*Op, error) {
	key, err := s.Key(version.Name)
	if err != nil {
		return nil, err
	}
	o := &Op{name: version.Name, backend: s.backend, op: kv.Op{Key: key, Kind: kv.OpCheck, Expect: kv.Revision(version.Revision)}}
	if recheck != nil {
		o.recheck = func(ctx context.Context, entry *kv.Entry) error {
			if entry == nil {
				return recheck(nil)
			}
			record, err := s.Record(ctx, entry)
			if err != nil {
				return err
			}
			return recheck(record)
		}
	}
	return o, nil
}

// commit commits the write of one object together with other writes. If a condition of the other writes
// fails, the error is an *OpConflictError. If only the condition of op fails, the error is nil, Committed is
// false, and Current[0] is the current entry of the object.
func (s *Store) commit(ctx context.Context, op kv.Op, with []*Op) (kv.CommitResult, error) {
	if s.origins {
		o := origin.Of(ctx, simulation.Now(ctx))
		op.Origin = o.Encode()
	}
	with, err := s.commitToOthers(ctx, with)
	if err != nil {
		return kv.CommitResult{}, err
	}
	return commitTogether(ctx, s.backend, []kv.Op{op}, with)
}

// commitToOthers commits the writes that belong to other backends, before the write of the object, and
// returns the remaining writes. A transaction cannot span two backends, so these writes stay committed even
// if the object is not written. The caller must correct them later, for example with the periodic recount of
// a quota.
func (s *Store) commitToOthers(ctx context.Context, with []*Op) (own []*Op, err error) {
	for {
		i := slices.IndexFunc(with, func(o *Op) bool { return o.backend != s.backend })
		if i < 0 {
			return with, nil
		}
		var there, others []*Op
		for _, o := range with {
			switch {
			case o.backend != with[i].backend:
				others = append(others, o)
			case o.recheck == nil:
				there = append(there, o)
			}
		}
		if len(there) > 0 {
			if _, err := commitTogether(ctx, with[i].backend, nil, there); err != nil {
				return nil, err
			}
		}
		with = others
	}
}

// commitTogether commits ops and with to one backend. If a condition of with fails, it calls its recheck function
// and repeats the commit, or returns an *OpConflictError. If only a condition of ops fails, it returns a result
// whose Committed is false.
func commitTogether(ctx context.Context, backend kv.Backend, ops []kv.Op, with []*Op) (kv.CommitResult, error) {
	first := len(ops)
	for _, o := range with {
		ops = append(ops, o.op)
	}
	for {
		end := request.MeasureLatency(ctx, request.StageStorage)
		res, err := backend.Commit(ctx, ops...)
		end()
		if err != nil {
			return res, err
		}
		if res.Committed {
			return res, observeOps(with, res.Revision)
		}
		changed, err := recheck(ctx, with, ops[first:], res.Current[first:])
		if err != nil || !changed {
			return res, err
		}
	}
}

// recheck calls the recheck functions of the conditions that have failed, and updates these conditions in ops.
// changed reports whether there are any. ops and current contain the operation and the current entry of each Op
// of with.
func recheck(ctx context.Context, with []*Op, ops []kv.Op, current []*kv.Entry) (changed bool, err error) {
	for i, o := range with {
		if modified(current[i]) == ops[i].Expect {
			continue
		}
		if o.recheck == nil {
			return false, &OpConflictError{o.name}
		}
		if err := o.recheck(ctx, current[i]); err != nil {
			return false, err
		}
		ops[i].Expect, changed = modified(current[i]), true
	}
	return changed, nil
}

func modified(entry *kv.Entry) kv.Revision {
	if entry == nil {
		return 0
	}
	return entry.Modified
}

// observeOps calls the observers of writes that were committed with another write.
func observeOps(with []*Op, revision kv.Revision) error {
	var errs []error
	for _, o := range with {
		if o.op.Kind == kv.OpCheck {
			continue
		}
		record := o.record.resolve(revision)
		switch {
		case o.observer == nil:
		case o.op.Kind == kv.OpPut:
			errs = append(errs, o.observer.Written(record))
		case o.observer.Deleted != nil:
			o.observer.Deleted(o.name, record.Revision())
		}
	}
	return errors.Join(errs...)
}

// Prepare implements Interface. The observer is called after the commit.
func (o observedStorage) Prepare(ctx context.Context, req OpRequest) (*Op, error) {
	op, err := o.Interface.Prepare(ctx, req)
	if err == nil {
		op.observer = o.observer
	}
	return op, err
}
