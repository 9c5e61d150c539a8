package storage

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/codec"
)

// Errors of an Interface.
var (
	// ErrNotFound is wrapped by the error of an operation on an object that does not exist.
	ErrNotFound = errors.New("object not found")
	// ErrExists is wrapped by the error of Create if the object exists.
	ErrExists = errors.New("object exists already")
	// ErrTooLarge is wrapped by the error of a write whose stored value exceeds the maximum size.
	ErrTooLarge = errors.New("object is too large to be stored")
	// ErrExpired is wrapped by *ExpiredError, the error for a compacted revision.
	ErrExpired = errors.New("revision is no longer available")
)

// ExpiredError reports that the requested revision is compacted. It wraps ErrExpired, and is an API error
// (410 Expired).
type ExpiredError struct {
	Message string
	// Continue is a token that continues a paged list at the newest revision; empty if the request was
	// not for a later page of a list.
	Continue string
}

func (e *ExpiredError) Error() string { return e.Message }
func (e *ExpiredError) Unwrap() error { return ErrExpired }

// Status implements apierrors.APIStatus.
func (e *ExpiredError) Status() metav1.Status {
	return metav1.Status{
		Status:   metav1.StatusFailure,
		ListMeta: metav1.ListMeta{Continue: e.Continue},
		Code:     http.StatusGone,
		Reason:   metav1.StatusReasonExpired,
		Message:  e.Message,
	}
}

// PreconditionError reports that the current object does not satisfy a precondition.
type PreconditionError struct {
	Field string // UID or ResourceVersion
	// Want is the value of the precondition, Got the value of the current object.
	Want, Got string
	// Key is the key of the object; Update sets it. In a dry run, the key lacks the prefix of the
	// server, as in kube-apiserver's message.
	Key string
}

func (e *PreconditionError) Error() string {
	change := "deleted and then recreated"
	if e.Field == "ResourceVersion" {
		change = "modified"
	}
	return fmt.Sprintf("the %s in the precondition (%s) does not match the %s in record (%s). The object might have been %s", e.Field, e.Want, e.Field, e.Got, change)
}

// FutureRevisionError reports that the requested revision is greater than the current one. Cached reads wait
// for the revision before they return this error. It is an API error (504 Timeout).
type FutureRevisionError struct{ Requested, Current int64 }

func (e *FutureRevisionError) Error() string {
	return fmt.Sprintf("Too large resource version: %d, current: %d", e.Requested, e.Current)
}

// Status implements apierrors.APIStatus.
func (e *FutureRevisionError) Status() metav1.Status {
	return metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusGatewayTimeout,
		Reason:  metav1.StatusReasonTimeout,
		Message: "Timeout: " + e.Error(),
		Details: &metav1.StatusDetails{
			RetryAfterSeconds: 1,
			Causes: []metav1.StatusCause{{
				Type:    metav1.CauseTypeResourceVersionTooLarge,
				Message: "Too large resource version",
			}},
		},
	}
}

// InvalidOptionError reports an invalid option of a request. It is an API error (400 BadRequest).
type InvalidOptionError struct{ Message string }

func (e *InvalidOptionError) Error() string { return e.Message }

// Status implements apierrors.APIStatus.
func (e *InvalidOptionError) Status() metav1.Status {
	return metav1.Status{
		Status:  metav1.StatusFailure,
		Code:    http.StatusBadRequest,
		Reason:  metav1.StatusReasonBadRequest,
		Message: e.Message,
	}
}

// checkPreconditions returns a *PreconditionError if the UID or resourceVersion of the object
// differs from the preconditions.
func checkPreconditions(preconditions *metav1.Preconditions, current *codec.Record) error {
	if want := preconditions.UID; want != nil {
		uid, err := current.UID()
		if err != nil {
			return err
		}
		if *want != uid {
			return &PreconditionError{Field: "UID", Want: string(*want), Got: string(uid)}
		}
	}
	if want := preconditions.ResourceVersion; want != nil {
		if version := strconv.FormatInt(current.Revision(), 10); *want != version {
			return &PreconditionError{Field: "ResourceVersion", Want: *want, Got: version}
		}
	}
	return nil
}

func notFound(name types.NamespacedName) error { return fmt.Errorf("%w: %s", ErrNotFound, name) }

// tooLarge returns the error for an object that is too large. Some clients match on "request is too
// large", which is also in kube-apiserver's message.
func tooLarge(size int) error {
	return fmt.Errorf("%w: request is too large: the object takes up %d bytes", ErrTooLarge, size)
}

func exists(name types.NamespacedName) error { return fmt.Errorf("%w: %s", ErrExists, name) }

const (
	listTooOld     = "The resourceVersion for the provided list is too old."
	continueTooOld = "The provided continue parameter is too old to display a consistent list result. " +
		"You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. " +
		"Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."
)

// TooOld returns the *ExpiredError for a watch from a compacted revision. oldest is the oldest available
// revision.
func TooOld(from, oldest int64) error {
	return &ExpiredError{Message: fmt.Sprintf("too old resource version: %d (%d)", from, oldest)}
}
