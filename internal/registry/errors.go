package registry

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage"
	"mainstay.dev/mainstay/internal/storage/kv"
)

// modifiedMessage is the message of the 409 for an update with an old resourceVersion, as in
// kube-apiserver.
const modifiedMessage = "the object has been modified; please apply your changes to the latest version and try again"

// apiError converts an error of storage into an API error. API errors are returned unchanged;
// unknown errors are wrapped and result in a 500.
func (s *Store) apiError(err error, name, verb string) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	var precondition *storage.PreconditionError
	var other *storage.OpConflictError
	var invalid *field.Error
	var corrupt *storage.CorruptError
	var readable *storage.ReadableError
	switch {
	case errors.As(err, &corrupt):
		return apierrors.NewInternalError(corrupt)
	case errors.As(err, &readable):
		return apierrors.NewConflict(s.Resource, name, readable)
	case errors.As(err, &other):
		return apierrors.NewConflict(s.Resource, name, other)
	case errors.Is(err, storage.ErrNotFound):
		return apierrors.NewNotFound(s.Resource, name)
	case errors.Is(err, storage.ErrExists):
		return apierrors.NewAlreadyExists(s.Resource, name)
	case errors.As(err, &precondition):
		return s.preconditionFailed(precondition, name, verb)
	case errors.As(err, &invalid):
		return apierrors.NewBadRequest(invalid.Error())
	case errors.Is(err, storage.ErrTooLarge):
		return apierrors.NewRequestEntityTooLargeError(err.Error())
	case errors.Is(err, kv.ErrNoSpace):
		return noSpace(err)
	case errors.Is(err, kv.ErrUnavailable), errors.Is(err, kv.ErrClosed):
		return unavailable(err, verb)
	}
	return fmt.Errorf("%s %s %q: %w", verb, s.Resource, name, err)
}

// preconditionFailed returns the 409 for a failed precondition, with the messages of kube-apiserver. For an
// update, the message contains the error of kube-apiserver's storage, including the key. For a deletion, it
// contains the kind instead of the resource. For a deletion of a kind with a PrepareForDelete (namespaces and
// definitions), it contains the resource and a short error.
func (s *Store) preconditionFailed(err *storage.PreconditionError, name, verb string) error {
	short := fmt.Errorf("Precondition failed: %s in precondition: %s, %s in object meta: %s", err.Field, err.Want, err.Field, err.Got)
	switch {
	case verb == "update":
		return apierrors.NewConflict(s.Resource, name, fmt.Errorf("StorageError: invalid object, Code: 4, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: %w", err.Key, short))
	case s.Strategy.PrepareForDelete != nil:
		return apierrors.NewConflict(s.Resource, name, short)
	}
	kind := schema.GroupResource{Group: s.Kind.Hub.GVK.Group, Resource: s.Kind.Hub.GVK.Kind}
	return apierrors.NewConflict(kind, name, err)
}

// maxFieldErrors is the maximum number of errors of one object in a response, and maxFieldErrorSize the maximum
// total size of their paths and messages, in bytes. A body of a few MB can cause a million errors, and each of
// them can quote a long path or a whole list.
const maxFieldErrors, maxFieldErrorSize = 1000, 4 << 20

// invalid returns the 422 for an invalid object. It contains the first errors, up to the limits, but at least one.
func (s *Store) invalid(obj codec.Object, errs field.ErrorList) error {
	size := 0
	for i, err := range errs {
		if size += len(err.Field) + len(err.ErrorBody()); i > 0 && size > maxFieldErrorSize || i == maxFieldErrors {
			errs = append(slices.Clip(errs[:i]), field.Invalid(nil, field.OmitValueType{}, fmt.Sprintf("only the first %d faults are listed", i)))
			break
		}
	}
	return apierrors.NewInvalid(s.Kind.Hub.GVK.GroupKind(), obj.GetName(), errs)
}

func noSpace(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: metav1.StatusReasonInternalError,
		Message: fmt.Sprintf("the server cannot store anything until space is freed on its disk: %v", err),
	}}
}

// unavailable returns the 503 for an unavailable store. Clients repeat a request if the response has a
// Retry-After. The response to a write has none, because the outcome of the write is unknown: a repeated
// creation with a generateName could store two objects. A closed store is an exception, because it has not
// performed the write.
func unavailable(err error, verb string) error {
	status := apierrors.NewServiceUnavailable(fmt.Sprintf("storage is unavailable: %v", err))
	if isRead := verb == "get" || verb == "list" || verb == "watch"; isRead || errors.Is(err, kv.ErrClosed) {
		status.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
	}
	return status
}

func isNotFound(err error) bool { return apierrors.IsNotFound(err) }
