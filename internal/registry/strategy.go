// Package registry is the generic store: how an object of any kind is created,
// updated and deleted, with the rules that all kinds share (names, metadata,
// generations, finalizers, graceful deletion, optimistic concurrency). The
// rules of one kind come in as a Strategy. It knows no HTTP.
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
// validation), ValidateUpdate, WarningsOnUpdate, Held (for an object that is
// marked for deletion), TTL. Warnings are left out where validation fails.
// Validating admission follows the warnings.
type Strategy struct {
	// Namespaced means that objects live in namespaces.
	Namespaced bool
	// ValidateName returns what is wrong with an object's name, or, with
	// prefix set, with a generateName. nil accepts DNS subdomains (RFC 1123).
	ValidateName func(name string, prefix bool) []string
	// ExactGenerateName makes a generateName the name itself: nothing random follows,
	// as where names are not for the client to choose.
	ExactGenerateName bool
	// AllowCreateOnUpdate lets an update create an object that does not exist.
	AllowCreateOnUpdate bool
	// RequireResourceVersion refuses an update without metadata.resourceVersion.
	RequireResourceVersion bool
	// Generation means that metadata.generation is counted: 1 on creation, one
	// more on each update for which SpecChanged is true. Otherwise it stays what
	// the client created the object with.
	Generation bool
	// Finalizers says what is done about new finalizers without a domain.
	Finalizers FinalizerPolicy
	// SpecChanged reports whether obj differs from old in what generation counts.
	// It is called after PrepareForUpdate.
	SpecChanged func(obj, old codec.Object) bool

	// Authorize returns why the request's user may not write obj, where that depends
	// on what is in it (nobody grants what they do not have); nil: it does not. old is
	// nil on creation. It is called before all else, and its error is an API error.
	Authorize func(ctx context.Context, obj, old codec.Object) error

	PrepareForCreate func(ctx context.Context, obj codec.Object)
	Validate         func(ctx context.Context, obj codec.Object) field.ErrorList
	WarningsOnCreate func(ctx context.Context, obj codec.Object) []string

	PrepareForUpdate func(ctx context.Context, obj, old codec.Object)
	ValidateUpdate   func(ctx context.Context, obj, old codec.Object) field.ErrorList
	WarningsOnUpdate func(ctx context.Context, obj, old codec.Object) []string

	// GracePeriod returns the grace period of a first deletion in seconds; 0
	// deletes at once. asked is the gracePeriodSeconds of the request, nil where
	// it has none. A nil GracePeriod deletes at once, whatever is asked.
	GracePeriod func(obj codec.Object, asked *int64) int64
	// OrphanByDefault orphans dependents where a deletion has no propagation
	// policy.
	OrphanByDefault bool
	// Held reports whether an object without finalizers must be kept all the same
	// (a namespace with spec.finalizers).
	Held func(obj codec.Object) bool
	// OnMark changes an object that is being marked as deleted.
	OnMark func(obj codec.Object)

	// Begin is called when a creation, an update or a removal is about to be
	// written, after validation; nil: objects are written alone.
	Begin Begin

	// TTL returns how long an object lives after each write; nil: for ever.
	TTL func(obj codec.Object) time.Duration
}
