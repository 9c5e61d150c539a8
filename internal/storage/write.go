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
)

// Create implements Interface.
func (s *Store) Create(ctx context.Context, obj codec.Object, options WriteOptions) (*codec.Record, error) {
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
	if err := write.pending.convertBack(ctx, name); err != nil {
		return nil, err
	}
	if options.DryRun {
		entry, _, err := s.backend.Get(ctx, key, 0)
		if err != nil {
			return nil, fmt.Errorf("create %s: %w", key, err)
		}
		if entry != nil {
			return nil, exists(name)
		}
		return write.pending.resolve(0), nil
	}
	res, err := s.put(ctx, key, write, 0, options)
	if err != nil {
		return nil, err
	}
	if !res.Committed {
		return nil, exists(name)
	}
	return write.pending.resolve(res.Revision), nil
}

// prepared is an object ready to be written.
type prepared struct {
	pending *uncommittedRecord
	// data is the stored form: note.value after transformation.
	data []byte
}

func (s *Store) prepare(ctx context.Context, key string, obj codec.Object) (*prepared, error) {
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
	return &prepared{pending: &uncommittedRecord{kind: s.kind, object: obj, value: value}, data: data}, nil
}

func (s *Store) put(ctx context.Context, key string, write *prepared, expect kv.Revision, options WriteOptions) (kv.CommitResult, error) {
	res, err := s.commit(ctx, kv.Op{
		Key: key, Expect: expect, Kind: kv.OpPut, Value: write.data, TTL: options.TTL, Note: write.pending,
		Removing: write.pending.object.GetDeletionTimestamp() != nil,
	}, options.With)
	switch {
	case errors.Is(err, kv.ErrTooLarge):
		err = tooLarge(len(write.data))
	case err != nil:
		err = fmt.Errorf("write %s: %w", key, err)
	}
	return res, err
}

// objState is the object that an update or deletion starts from.
type objState struct {
	record *codec.Record // nil if there is none
	// stale: the stored value should be rewritten, even unchanged.
	stale bool
	// fresh: read from the backend since the call began. Only a successful write,
	// which the backend checks, may result from a state that is not.
	fresh bool
}

func (st *objState) revision() kv.Revision {
	if st.record == nil {
		return 0
	}
	return kv.Revision(st.record.Revision())
}

// mayExplain reports whether a stale state can be the cause of err: the other writes of a
// transaction depend on it.
func (st *objState) mayExplain(err error) bool {
	return !st.fresh && errors.As(err, new(*OpConflictError))
}

// initialState returns the state of the first attempt: the cached record, if there
// is one.
func (s *Store) initialState(ctx context.Context, key string, cached *codec.Record) (objState, error) {
	if cached != nil && cached.StoredSize() > 0 {
		return objState{record: cached}, nil
	}
	return s.read(ctx, key)
}

// read returns the newest state, from the backend.
func (s *Store) read(ctx context.Context, key string) (objState, error) {
	entry, _, err := s.backend.Get(ctx, key, 0)
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

// refresh replaces a state by the newest, and reports whether the revision is the
// same.
func (s *Store) refresh(ctx context.Context, key string, st *objState) (same bool, err error) {
	renewed, err := s.read(ctx, key)
	if err != nil {
		return false, err
	}
	same = renewed.revision() == st.revision()
	*st = renewed
	return same, nil
}

// Update implements Interface.
func (s *Store) Update(ctx context.Context, name types.NamespacedName, update UpdateFunc, options UpdateOptions) (*codec.Record, error) {
	key, err := s.Key(name)
	if err != nil {
		return nil, err
	}
	record, err := s.guaranteedUpdate(ctx, name, key, update, options)
	var precondition *PreconditionError
	if errors.As(err, &precondition) {
		if precondition.Key = key; options.DryRun {
			precondition.Key = strings.TrimPrefix(key, s.root)
		}
	}
	return record, s.short(err)
}

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
			continue // st is the newest now
		}
		same, renewErr := s.refresh(ctx, key, &st)
		if renewErr != nil {
			return nil, renewErr
		}
		if same {
			return nil, err
		}
	}
}

// attempt is one round of an update. Where it is not done, either err is nil and st
// is the newest state, or err may be due to a stale st.
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
	if st.record != nil && bytes.Equal(next.pending.value, st.record.Stored()) {
		if !st.fresh {
			if same, err := s.refresh(ctx, key, st); err != nil || !same {
				return nil, err != nil, err
			}
		}
		if !st.stale {
			return st.record, true, nil
		}
	}
	if err := next.pending.convertBack(ctx, name); err != nil {
		return nil, true, err
	}
	if options.DryRun || write.DryRun {
		return s.dryUpdate(ctx, key, st, next.pending)
	}
	res, err := s.put(ctx, key, next, st.revision(), write)
	if err != nil {
		return nil, !st.mayExplain(err), err
	}
	if res.Committed {
		return next.pending.resolve(res.Revision), true, nil
	}
	*st, err = s.stateOf(ctx, res.Current[0])
	return nil, err != nil, err
}

func propose(ctx context.Context, st *objState, update UpdateFunc, preconditions *metav1.Preconditions) (codec.Object, WriteOptions, error) {
	if err := codec.Convert(ctx, st.record); err != nil {
		return nil, WriteOptions{}, err
	}
	if err := st.check(preconditions); err != nil {
		return nil, WriteOptions{}, err
	}
	return update(st.record)
}

// check checks the preconditions. The update checks those on an absent object.
func (st *objState) check(preconditions *metav1.Preconditions) error {
	if preconditions == nil || st.record == nil {
		return nil
	}
	return checkPreconditions(preconditions, st.record)
}

// dryUpdate completes a dry run, once st is the newest state.
func (s *Store) dryUpdate(ctx context.Context, key string, st *objState, note *uncommittedRecord) (*codec.Record, bool, error) {
	if !st.fresh {
		if same, err := s.refresh(ctx, key, st); err != nil || !same {
			return nil, err != nil, err
		}
	}
	if st.record == nil {
		note.object.SetResourceVersion("")
	}
	return note.resolve(st.revision()), true, nil
}

// remove attempts to delete the object of st.
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
	note := &uncommittedRecord{kind: s.kind, before: st.record}
	res, err := s.commit(ctx, kv.Op{Key: key, Expect: st.revision(), Kind: kv.OpDelete, Note: note}, write.With)
	if err != nil {
		return nil, !st.mayExplain(err), fmt.Errorf("delete %s: %w", key, err)
	}
	if !res.Committed {
		*st, err = s.stateOf(ctx, res.Current[0])
		return nil, err != nil, err
	}
	if last != nil {
		return codec.RecordOf(s.kind, last, nil, int64(res.Revision)), true, nil
	}
	return note.resolve(res.Revision), true, nil
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
