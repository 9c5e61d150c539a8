// Package registry is the generic store: it creates, updates and deletes objects with the rules of
// all kinds (names, metadata, generations, finalizers, graceful deletion, optimistic concurrency).
// A Strategy contains the rules of one kind. The package is independent of HTTP.
//
// Package endpoints calls a Store, and the Store calls back twice: the rest.UpdateFunc, which
// computes the new object of an update and runs mutating admission, and the
// rest.ValidateObjectFunc, which runs validating admission. Both are parameters of the call. The
// sequence of an update is:
//
//	endpoints, admission           registry                      storage
//
//	Store.Update ────────────────▶ transact
//	                               │ Storage.Update ───────────▶ read the current object
//	UpdateFunc(current) ◀───────── │ nextState ◀──────────────── call the update function
//	  decode, apply, merge         │
//	  Chain.Mutate                 │
//	  return the object ─────────▶ │ checkResourceVersion
//	                               │ Strategy: Authorize,
//	                               │   PrepareForUpdate, ...
//	                               │ Strategy.BeginTransaction
//	Chain.Validate ◀────────────── │ ValidateObjectFunc
//	  accept or reject ──────────▶ │ object and options ───────▶ encode, charge quotas, commit
//	                               │ ◀────────────────────────── on a conflict: call it again
//	the stored record ◀─────────── return
//
// A creation differs: mutating admission runs before Store.Create, because the object does not depend on a
// stored object. A deletion has no UpdateFunc; its ValidateObjectFunc runs both passes of admission on the
// stored object (admission.Chain.ValidateDeletionFunc).
package registry

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/codec"
)

// Strategy contains the rules of one kind. The zero value is for a cluster-scoped kind without additional
// rules. Its functions are called concurrently, and several times for a request after a conflict. They may
// modify the new object, must not modify the old object, and must not retain the objects.
//
// A creation calls, in this order: Authorize, PrepareForCreate, ValidateName (through the validation of
// metadata), Validate, WarningsOnCreate, TTL. An update calls Authorize, PrepareForUpdate, SpecChanged,
// ValidateUpdate, WarningsOnUpdate, BlocksRemoval (only for an object with a deletion timestamp), TTL.
// BeginTransaction and then validating admission follow. The warnings are not called if validation fails.
type Strategy struct {
	// Namespaced reports whether the objects are in namespaces.
	Namespaced bool
	// ValidateName returns the errors of an object's name or, if prefix is set, of a generateName.
	// nil requires DNS subdomains (RFC 1123).
	ValidateName func(name string, prefix bool) []string
	// ExactGenerateName uses generateName as the name, without a random suffix, for kinds whose
	// names clients cannot choose.
	ExactGenerateName bool
	// AllowCreateOnUpdate makes an update create a missing object.
	AllowCreateOnUpdate bool
	// RequireResourceVersion rejects an update without metadata.resourceVersion.
	RequireResourceVersion bool
	// Generation enables metadata.generation: 1 on creation, incremented by each update for which SpecChanged
	// returns true. If Generation is false, the object keeps the value in the request that creates it.
	Generation bool
	// Finalizers is the policy for new finalizers without a domain.
	Finalizers FinalizerPolicy
	// SpecChanged reports whether obj differs from old in a part that increments the generation. It
	// is called after PrepareForUpdate.
	SpecChanged func(obj, old codec.Object) bool

	// Authorize returns an error if the request's user may not write obj, for permissions that depend on its
	// content (users cannot grant permissions that they do not have). A nil Authorize permits all writes. old
	// is nil on creation. Authorize is called first, and its error is an API error.
	Authorize func(ctx context.Context, obj, old codec.Object) error

	// PrepareForCreate sets the fields of a new object that clients cannot set, Validate returns the errors
	// of the object, and WarningsOnCreate returns warnings for the client. Each may be nil.
	PrepareForCreate func(ctx context.Context, obj codec.Object)
	Validate         func(ctx context.Context, obj codec.Object) field.ErrorList
	WarningsOnCreate func(ctx context.Context, obj codec.Object) []string

	// PrepareForUpdate, ValidateUpdate and WarningsOnUpdate are the same for an update.
	PrepareForUpdate func(ctx context.Context, obj, old codec.Object)
	ValidateUpdate   func(ctx context.Context, obj, old codec.Object) field.ErrorList
	WarningsOnUpdate func(ctx context.Context, obj, old codec.Object) []string

	// GracePeriod returns the grace period of the first deletion of an object, in seconds; 0 deletes
	// immediately. requested is the gracePeriodSeconds of the request, or nil. A nil GracePeriod always
	// deletes immediately.
	GracePeriod func(obj codec.Object, requested *int64) int64
	// OrphanByDefault orphans the dependents if a deletion has no propagation policy.
	OrphanByDefault bool
	// BlocksRemoval reports whether an object must not be removed yet although it has no metadata.finalizers,
	// for example a namespace with spec.finalizers. nil never blocks.
	BlocksRemoval func(obj codec.Object) bool
	// PrepareForDelete modifies an object that receives a deletion timestamp; nil modifies nothing.
	PrepareForDelete func(obj codec.Object)

	// BeginTransaction creates the transaction of a creation, update or removal, after validation. If it is
	// nil, objects are written without other objects.
	BeginTransaction BeginTransactionFunc

	// TTL returns the lifetime of an object after a write; 0 and a nil TTL mean unlimited.
	TTL func(obj codec.Object) time.Duration
}
