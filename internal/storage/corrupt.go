package storage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// CorruptError reports a stored object that cannot be read, because its value cannot be decrypted or decoded.
// The error text is the same as kube-apiserver's.
type CorruptError struct {
	// Key is the key of the object, without the global prefix if the request was for a single
	// object.
	Key string
	Err error // the cause
	// Decrypted is set if the value was decrypted but cannot be decoded.
	Decrypted bool
	// Revision is the revision of the object.
	Revision int64
}

func (e *CorruptError) Error() string {
	reason, revision := "data from the storage is not transformable", int64(0)
	if e.Decrypted {
		reason, revision = "object not decodable", e.Revision
	}
	return fmt.Sprintf("StorageError: corrupt object, Code: 7, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: %s revision=%d: %v", e.Key, reason, revision, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// CorruptDeletionError ends a watch when an unreadable object is deleted, because the event must contain the
// object. It is an API error (500 StorageReadError).
type CorruptDeletionError struct{ Err *CorruptError }

func (e *CorruptDeletionError) Error() string {
	return fmt.Sprintf("saw a DELETED event, but object data is corrupt - %v", e.Err)
}

func (e *CorruptDeletionError) Unwrap() error { return e.Err }

// Status implements apierrors.APIStatus.
func (e *CorruptDeletionError) Status() metav1.Status {
	return metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonStoreReadError, Message: e.Error()}
}

// eventError returns the error for an event whose previous value is unreadable.
func eventError(ev *kv.Event, err error) error {
	var corrupt *CorruptError
	if ev.Deleted && errors.As(err, &corrupt) {
		return &CorruptDeletionError{corrupt}
	}
	return err
}

// ReadableError is the error of DeleteCorrupt for a readable object. Key is the key of the object. The error
// text is the same as kube-apiserver's.
type ReadableError struct{ Key string }

func (e *ReadableError) Error() string {
	return fmt.Sprintf("StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: unsafe deletion is not allowed because the object is decodable from storage", e.Key)
}

// maxCorrupt is the maximum number of objects in a CorruptListError.
const maxCorrupt = 100

// CorruptListError reports the unreadable objects of a list. It is an API error (500 StorageReadError) with a
// cause for each object.
type CorruptListError struct {
	Resource schema.GroupResource
	Objects  []*CorruptError // at least one
	// Aborted is the error that ended the list early; nil if the list was read to its end.
	Aborted error
}

var errTooManyCorrupt = errors.New("too many errors, the list is truncated")

func (e *CorruptListError) Error() string {
	message := fmt.Sprintf("failed to read one or more %s from the storage: %v", e.Resource, e.Objects[0])
	if more := len(e.Objects) - 1; more > 0 {
		message = fmt.Sprintf("%s (and %d more)", message, more)
	}
	return message
}

func (e *CorruptListError) Unwrap() error { return e.Objects[0] }

// Status implements apierrors.APIStatus.
func (e *CorruptListError) Status() metav1.Status {
	var causes []metav1.StatusCause
	for _, object := range e.Objects {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse, Field: object.Key, Message: object.Error()})
	}
	switch {
	case errors.Is(e.Aborted, errTooManyCorrupt):
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeTooMany, Message: e.Aborted.Error()})
	case e.Aborted != nil:
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse, Message: e.Aborted.Error()})
	}
	return metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonStoreReadError,
		Details: &metav1.StatusDetails{Group: e.Resource.Group, Kind: e.Resource.Resource, Name: "list", Causes: causes},
		Message: e.Error(),
	}
}

// collectCorrupt yields the records up to the first unreadable object. After that, it yields no more records:
// it reads the rest only to collect the unreadable objects, and finally yields a *CorruptListError.
func (s *Store) collectCorrupt(records iter.Seq2[*codec.Record, error]) iter.Seq2[*codec.Record, error] {
	return func(yield func(*codec.Record, error) bool) {
		var found *CorruptListError
		for record, err := range records {
			var corrupt *CorruptError
			switch {
			case errors.As(err, &corrupt):
				if found == nil {
					found = &CorruptListError{Resource: s.resource}
				}
				if found.Objects = append(found.Objects, corrupt); len(found.Objects) == maxCorrupt {
					found.Aborted = errTooManyCorrupt
					yield(nil, found)
					return
				}
			case found != nil && err != nil:
				found.Aborted = err
				yield(nil, found)
				return
			case found == nil:
				if !yield(record, err) {
					return
				}
			}
		}
		if found != nil {
			yield(nil, found)
		}
	}
}

// readAll reads all records and returns a sequence of them, or the first error.
func readAll(records iter.Seq2[*codec.Record, error]) (iter.Seq2[*codec.Record, error], error) {
	var all []*codec.Record
	for record, err := range records {
		if err != nil {
			return nil, err
		}
		all = append(all, record)
	}
	return func(yield func(*codec.Record, error) bool) {
		for _, record := range all {
			if !yield(record, nil) {
				return
			}
		}
	}, nil
}

// trimKey removes the key prefix of the server from the key of a *CorruptError, as kube-apiserver does in
// requests for a single object.
func (s *Store) trimKey(err error) error {
	var corrupt *CorruptError
	if errors.As(err, &corrupt) {
		corrupt.Key = strings.TrimPrefix(corrupt.Key, s.root)
	}
	return err
}

// DeleteCorrupt implements Interface.
func (s *Store) DeleteCorrupt(ctx context.Context, name types.NamespacedName, dryRun bool) (int64, error) {
	key, err := s.Key(name)
	if err != nil {
		return 0, err
	}
	entry, _, err := s.backend.Get(ctx, key, 0)
	if err != nil {
		return 0, fmt.Errorf("get %s: %w", key, err)
	}
	for {
		if entry == nil {
			return 0, notFound(name)
		}
		if err := s.requireCorrupt(ctx, entry); err != nil || dryRun {
			return int64(entry.Modified), err
		}
		res, err := s.backend.Commit(ctx, kv.Op{Key: key, Expect: entry.Modified, Kind: kv.OpDelete})
		if err != nil {
			return 0, fmt.Errorf("delete %s: %w", key, err)
		}
		if res.Committed {
			return int64(res.Revision), nil
		}
		entry = res.Current[0]
	}
}

// requireCorrupt returns a *ReadableError if an entry can be read, and nil if it is corrupt.
func (s *Store) requireCorrupt(ctx context.Context, entry *kv.Entry) error {
	record, err := s.Record(ctx, entry)
	if err == nil && !record.NeedsConversion() { // a failed webhook does not make the object corrupt
		_, err = record.Object()
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return &ReadableError{entry.Key}
	}
	return nil
}
