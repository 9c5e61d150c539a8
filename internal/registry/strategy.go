// Package registry is the generic store: it creates, updates and deletes objects with the rules of
// all kinds (names, metadata, generations, finalizers, graceful deletion, optimistic concurrency).
// A Strategy has the rules of one kind. The package is independent of HTTP.
package registry

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/codec"
)

// Strategy is the rules of one kind. Its zero value is that of a cluster-scoped
// kind without rules of its own. Functions may be called concurrently, and more
// than once per request. They must not retain their arguments; they may change
// the new object and never the old one.
//
// A creation calls, in this order: Authorize, PrepareForCreate, ValidateName (through the
// validation of metadata), Validate, WarningsOnCreate, TTL. An update calls
// Authorize, PrepareForUpdate, SpecChanged (which decides on the generation, before
// validation), ValidateUpdate, WarningsOnUpdate, BlocksRemoval (for an object that is
// marked for deletion), TTL. Warnings are left out where validation fails.
// Validating admission follows the warnings.
type Strategy struct {
	// Namespaced means that objects live in namespaces.
	Namespaced bool
	// ValidateName returns the errors of an object's name or, if prefix is set, of a generateName.
	// nil requires DNS subdomains (RFC 1123).
	ValidateName func(name string, prefix bool) []string
	// ExactGenerateName uses generateName as the name, without a random suffix, for kinds whose
	// names clients cannot choose.
	ExactGenerateName bool
	// AllowCreateOnUpdate lets an update create a missing object.
	AllowCreateOnUpdate bool
	// RequireResourceVersion rejects an update without metadata.resourceVersion.
	RequireResourceVersion bool
	// Generation enables metadata.generation: 1 on creation, incremented by each update for which
	// SpecChanged returns true. Otherwise it has the value of the client's creation.
	Generation bool
	// Finalizers is the policy for new finalizers without a domain.
	Finalizers FinalizerPolicy
	// SpecChanged reports whether obj differs from old in a part that increments the generation. It
	// is called after PrepareForUpdate.
	SpecChanged func(obj, old codec.Object) bool

	// Authorize returns an error if the request's user may not write obj, for permissions that
	// depend on its content (users cannot grant permissions that they do not have); nil permits
	// all. old is nil on creation. It is called first, and its error is an API error.
	Authorize func(ctx context.Context, obj, old codec.Object) error

	PrepareForCreate func(ctx context.Context, obj codec.Object)
	Validate         func(ctx context.Context, obj codec.Object) field.ErrorList
	WarningsOnCreate func(ctx context.Context, obj codec.Object) []string

	PrepareForUpdate func(ctx context.Context, obj, old codec.Object)
	ValidateUpdate   func(ctx context.Context, obj, old codec.Object) field.ErrorList
	WarningsOnUpdate func(ctx context.Context, obj, old codec.Object) []string

	// GracePeriod returns the grace period of a first deletion in seconds; 0 deletes immediately.
	// asked is the gracePeriodSeconds of the request, or nil. A nil GracePeriod always deletes
	// immediately.
	GracePeriod func(obj codec.Object, asked *int64) int64
	// OrphanByDefault orphans dependents where a deletion has no propagation
	// policy.
	OrphanByDefault bool
	// BlocksRemoval reports whether an object must be preserved although it has no finalizers (a namespace
	// with spec.finalizers).
	BlocksRemoval func(obj codec.Object) bool
	// PrepareForDelete changes an object that is being marked as deleted.
	PrepareForDelete func(obj codec.Object)

	// Begin is called before the write of a creation, update or removal, after validation; nil
	// writes objects alone.
	Begin Begin

	// TTL returns how long an object lives after each write; nil: for ever.
	TTL func(obj codec.Object) time.Duration
}
