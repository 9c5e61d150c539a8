package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage/kv"
	"mainstay.dev/mainstay/internal/telemetry/tracing"
)

// Create implements Interface.
func (s *Store) Create(ctx context.Context, obj codec.Object, options WriteOptions) (record *codec.Record, err error) {
	ctx, span := tracing.Start(ctx, "Create in storage")
	defer func() { span.End(err) }()
	name := types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
	key, err := s.Key(name)
	if err != nil {
		return nil, err
	}
	obj.SetResourceVersion("")
	write, err := s.prepare(ctx, key, obj)
	if err != nil {
		return nil, err
	}
	if err := write.record.convertBack(ctx, name); err != nil {
		return nil, err
	}
	if options.DryRun {
		entry, _, err := s.get(ctx, key, 0)
		if err != nil {
			return nil, fmt.Errorf("create %s: %w", key, err)
		}
		if entry != nil {
			return nil, exists(name)
		}
		return write.record.resolve(0), nil
	}
	res, err := s.put(ctx, key, write, 0, options)
	if err != nil {
		return nil, err
	}
	if !res.Committed {
		return nil, exists(name)
	}
	return write.record.resolve(res.Revision), nil
}

// preparedWrite is an encoded object.
type preparedWrite struct {
	record *uncommittedRecord
	// data is the value to store, which is record.value after transformation.
	data []byte
}

// prepare encodes and transforms an object. It may block on a conversion webhook or a key service.
func (s *Store) prepare(ctx context.Context, key string, obj codec.Object) (*preparedWrite, error) {
	value, err := s.kind.EncodeStored(ctx, obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", key, err)
	}
	data, err := s.transformer.ToStorage(ctx, value, key)
	if err != nil {
		return nil, fmt.Errorf("transform %s: %w", key, err)
	}
	if s.maxBytes > 0 && len(data) > s.maxBytes {
		return nil, tooLarge(len(data))
	}
	return &preparedWrite{record: &uncommittedRecord{kind: s.kind, object: obj, value: value}, data: data}, nil
}

func (s *Store) put(ctx context.Context, key string, write *preparedWrite, expect kv.Revision, options WriteOptions) (kv.CommitResult, error) {
	res, err := s.commit(ctx, kv.Op{
		Key: key, Expect: expect, Kind: kv.OpPut, Value: write.data, TTL: options.TTL, Note: write.record,
		Removing: write.record.object.GetDeletionTimestamp() != nil,
	}, options.With)
	switch {
	case errors.Is(err, kv.ErrTooLarge):
		err = tooLarge(len(write.data))
	case err != nil:
		err = fmt.Errorf("write %s: %w", key, err)
	}
	return res, err
}

// objState is the state of an object at the start of an update or deletion.
type objState struct {
	record *codec.Record // nil if the object does not exist
	// stale is set if the stored value should be rewritten, even if the object is unchanged.
	stale bool
	// fresh is set if the state was read from the backend since the call began. Otherwise the state may be
	// outdated. A write may be based on an outdated state, because the backend checks the revision. An error,
	// or a response without a write, requires a fresh state.
	fresh bool
}

func (st *objState) revision() kv.Revision {
	if st.record == nil {
		return 0
	}
	return kv.Revision(st.record.Revision())
}

// causedByStaleState reports whether err may be due to an outdated state, because the other writes of the
// transaction are based on it.
func (st *objState) causedByStaleState(err error) bool {
	return !st.fresh && errors.As(err, new(*OpConflictError))
}

// initialState returns the state for the first attempt: the cached record, or the newest state if cached is
// nil or has no stored value.
func (s *Store) initialState(ctx context.Context, key string, cached *codec.Record) (objState, error) {
	if cached != nil && cached.StoredSize() > 0 {
		return objState{record: cached}, nil
	}
	return s.read(ctx, key)
}

// read returns the newest state from the backend.
func (s *Store) read(ctx context.Context, key string) (objState, error) {
	entry, _, err := s.get(ctx, key, 0)
	if err != nil {
		return objState{}, fmt.Errorf("get %s: %w", key, err)
	}
	return s.stateOf(ctx, entry)
}

func (s *Store) stateOf(ctx context.Context, entry *kv.Entry) (objState, error) {
	if entry == nil {
		return objState{fresh: true}, nil
	}
	record, stale, err := s.decode(ctx, entry)
	return objState{record: record, stale: stale, fresh: true}, err
}

// refresh replaces a state with the newest one, and reports whether the revision is the same. If so, refresh
// keeps the old record, because it is already converted.
func (s *Store) refresh(ctx context.Context, key string, st *objState) (same bool, err error) {
	newest, err := s.read(ctx, key)
	if err != nil {
		return false, err
	}
	if same = newest.revision() == st.revision(); same {
		newest.record = st.record
	}
	*st = newest
	return same, nil
}

// Update implements Interface.
func (s *Store) Update(ctx context.Context, name types.NamespacedName, update UpdateFunc, options UpdateOptions) (record *codec.Record, err error) {
	ctx, span := tracing.Start(ctx, "Update in storage")
	defer func() { span.End(err) }()
	key, err := s.Key(name)
	if err != nil {
		return nil, err
	}
	record, err = s.guaranteedUpdate(ctx, name, key, update, options)
	var precondition *PreconditionError
	if errors.As(err, &precondition) {
		if precondition.Key = key; options.DryRun {
			precondition.Key = strings.TrimPrefix(key, s.root)
		}
	}
	return record, s.trimKey(err)
}

// guaranteedUpdate calls attempt until an attempt succeeds, or fails for the newest state.
func (s *Store) guaranteedUpdate(ctx context.Context, name types.NamespacedName, key string, update UpdateFunc, options UpdateOptions) (*codec.Record, error) {
	st, err := s.initialState(ctx, key, options.Cached)
	if err != nil {
		return nil, err
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		record, done, err := s.attempt(ctx, name, key, &st, update, options)
		if done {
			return record, err
		}
		if err == nil {
			continue // attempt has set st to the newest state
		}
		same, readErr := s.refresh(ctx, key, &st)
		if readErr != nil {
			return nil, readErr
		}
		if same {
			return nil, err
		}
	}
}

// attempt makes one attempt to update an object. If done is false, the caller must call attempt again. In
// this case, if err is nil, attempt has set st to the newest state; otherwise, err may be due to an outdated
// st, and the caller must refresh st.
func (s *Store) attempt(ctx context.Context, name types.NamespacedName, key string, st *objState, update UpdateFunc, options UpdateOptions) (_ *codec.Record, done bool, _ error) {
	obj, write, err := propose(ctx, st, update, options.Preconditions)
	var remove Remove
	if errors.As(err, &remove) {
		write.DryRun = write.DryRun || options.DryRun
		return s.remove(ctx, name, key, st, remove.Last, write)
	}
	if err != nil {
		return nil, st.fresh, err
	}
	next, err := s.prepare(ctx, key, obj)
	if err != nil {
		return nil, true, err
	}
	if st.record != nil && bytes.Equal(next.record.value, st.record.Stored()) {
		if !st.fresh {
			if same, err := s.refresh(ctx, key, st); err != nil || !same {
				return nil, err != nil, err
			}
		}
		if !st.stale {
			return st.record, true, nil
		}
	}
	if err := next.record.convertBack(ctx, name); err != nil {
		return nil, true, err
	}
	if options.DryRun || write.DryRun {
		return s.dryUpdate(ctx, key, st, next.record)
	}
	res, err := s.put(ctx, key, next, st.revision(), write)
	if err != nil {
		return nil, !st.causedByStaleState(err), err
	}
	if res.Committed {
		return next.record.resolve(res.Revision), true, nil
	}
	*st, err = s.stateOf(ctx, res.Current[0])
	return nil, err != nil, err
}

// propose calls update with the record of st if the record satisfies the preconditions.
func propose(ctx context.Context, st *objState, update UpdateFunc, preconditions *metav1.Preconditions) (codec.Object, WriteOptions, error) {
	if err := codec.Convert(ctx, st.record); err != nil {
		return nil, WriteOptions{}, err
	}
	if err := st.check(preconditions); err != nil {
		return nil, WriteOptions{}, err
	}
	return update(st.record)
}

// check checks the preconditions of an existing object. For a missing object it returns nil, because the
// UpdateFunc handles missing objects.
func (st *objState) check(preconditions *metav1.Preconditions) error {
	if preconditions == nil || st.record == nil {
		return nil
	}
	return checkPreconditions(preconditions, st.record)
}

// dryUpdate returns the record of a dry run if st is the newest state; otherwise it refreshes st. The
// results have the same meaning as those of attempt.
func (s *Store) dryUpdate(ctx context.Context, key string, st *objState, record *uncommittedRecord) (*codec.Record, bool, error) {
	if !st.fresh {
		if same, err := s.refresh(ctx, key, st); err != nil || !same {
			return nil, err != nil, err
		}
	}
	if st.record == nil {
		record.object.SetResourceVersion("")
	}
	return record.resolve(st.revision()), true, nil
}

// remove attempts to delete the object of st. last is Remove.Last. The results have the same meaning as those
// of attempt.
func (s *Store) remove(ctx context.Context, name types.NamespacedName, key string, st *objState, last codec.Object, write WriteOptions) (*codec.Record, bool, error) {
	if st.record == nil {
		return nil, st.fresh, notFound(name)
	}
	if write.DryRun {
		if !st.fresh {
			if same, err := s.refresh(ctx, key, st); err != nil || !same {
				return nil, err != nil, err
			}
		}
		if last != nil {
			return codec.RecordOf(s.kind, last, nil, st.record.Revision()), true, nil
		}
		return st.record, true, nil
	}
	deleted := &uncommittedRecord{kind: s.kind, before: st.record}
	res, err := s.commit(ctx, kv.Op{Key: key, Expect: st.revision(), Kind: kv.OpDelete, Note: deleted}, write.With)
	if err != nil {
		return nil, !st.causedByStaleState(err), fmt.Errorf("delete %s: %w", key, err)
	}
	if !res.Committed {
		*st, err = s.stateOf(ctx, res.Current[0])
		return nil, err != nil, err
	}
	if last != nil {
		return codec.RecordOf(s.kind, last, nil, int64(res.Revision)), true, nil
	}
	return deleted.resolve(res.Revision), true, nil
}

// Delete implements Interface.
func (s *Store) Delete(ctx context.Context, name types.NamespacedName, validate func(codec.Object) error, options UpdateOptions) (*codec.Record, error) {
	return s.Update(ctx, name, func(current *codec.Record) (codec.Object, WriteOptions, error) {
		if current == nil {
			return nil, WriteOptions{}, notFound(name)
		}
		if validate != nil {
			obj, err := current.Shared()
			if err != nil {
				return nil, WriteOptions{}, err
			}
			if err := validate(obj); err != nil {
				return nil, WriteOptions{}, err
			}
		}
		return nil, WriteOptions{}, Remove{}
	}, options)
}
