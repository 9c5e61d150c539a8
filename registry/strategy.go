// Package registry is the generic store: how an object of any kind is created,
// updated and deleted, with the rules that all kinds share (names, metadata,
// generations, finalizers, graceful deletion, optimistic concurrency). The
// rules of one kind come in as a Strategy. It knows no HTTP.
//
// Imports: codec, request, rest, storage, storage/kv.
package registry

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/codec"
)

// Strategy is what one kind does differently. Its zero value is a
// cluster-scoped kind without any rules of its own. Functions must not keep
// the objects they are given; they may change the new object and never the
// old one.
//
// A creation calls, in this order: PrepareForCreate, ValidateName (through the
// validation of metadata), Validate, WarningsOnCreate. An update calls
// PrepareForUpdate, ValidateUpdate, WarningsOnUpdate; the generation is then
// counted up where SpecChanged says so.
type Strategy struct {
	// Namespaced means that objects live in namespaces.
	Namespaced bool
	// ValidateName returns what is wrong with an object's name, or, with
	// prefix set, with a generateName. nil accepts DNS subdomains (RFC 1123).
	ValidateName func(name string, prefix bool) []string
	// AllowCreateOnUpdate lets a PUT create what does not exist.
	AllowCreateOnUpdate bool
	// RequireResourceVersion refuses a PUT without metadata.resourceVersion.
	RequireResourceVersion bool
	// Generation means that metadata.generation is kept: 1 on creation, one
	// more on each update for which SpecChanged is true.
	Generation bool
	// SpecChanged compares what generation counts.
	SpecChanged func(obj, old codec.Object) bool

	PrepareForCreate func(ctx context.Context, obj codec.Object)
	Validate         func(ctx context.Context, obj codec.Object) field.ErrorList
	WarningsOnCreate func(ctx context.Context, obj codec.Object) []string

	PrepareForUpdate func(ctx context.Context, obj, old codec.Object)
	ValidateUpdate   func(ctx context.Context, obj, old codec.Object) field.ErrorList
	WarningsOnUpdate func(ctx context.Context, obj, old codec.Object) []string

	// GracePeriod returns for how many seconds a deletion is only announced
	// before the object may go; 0 deletes at once. asked is what the client
	// wants, nil where it says nothing. nil means that the kind is deleted at
	// once, always.
	GracePeriod func(obj codec.Object, asked *int64) int64
	// OrphanByDefault leaves dependents alone where a deletion says nothing of
	// them.
	OrphanByDefault bool
	// Held means that an object whose finalizers are empty must stay all the
	// same (a namespace with spec.finalizers).
	Held func(obj codec.Object) bool
	// OnMark changes an object that is being marked as deleted.
	OnMark func(obj codec.Object)

	// TTL returns how long an object lives after each write; nil: for ever.
	TTL func(obj codec.Object) time.Duration
}
