package builtin

import (
	"context"
	"time"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
)

// Operation describes the write for which a hook is called.
type Operation struct {
	// Context is the context of the request.
	Context context.Context
	// Env is the environment of the control plane that contains the written object.
	Env *Env
	// DryRun reports whether the write is a dry run, which is not committed. It is set for BeginTransaction
	// only.
	DryRun bool
}

// Strategy contains the hooks for writes of a resource. Each hook may be nil. A write calls the hooks in the
// order of the fields. old is nil on creation.
type Strategy[O codec.Object] struct {
	// Default sets default values when an object is decoded from a request or from storage. It must
	// be idempotent.
	Default func(obj O)
	// Authorize returns an API error if the user is not allowed to write the content of obj.
	Authorize func(op *Operation, obj, old O) error
	// GatedFields declares the fields that belong to feature gates. The fields of disabled gates are dropped
	// before PrepareForCreate and after PrepareForUpdate. PrepareForUpdate may therefore count a dropped field
	// as a change.
	GatedFields []GatedFields[O]
	// PrepareForCreate and PrepareForUpdate set and clear the fields that the server owns.
	PrepareForCreate func(op *Operation, obj O)
	PrepareForUpdate func(op *Operation, obj, old O)
	// SpecChanged reports whether an update increments the generation. If it is nil, an update does so if it
	// changes the spec or, for types without a spec, any field except metadata and status.
	SpecChanged func(obj, old O) bool

	// ValidateExternal validates obj against external state: other objects, the authorizer and the
	// configuration of the server. It runs before Validate.
	ValidateExternal func(op *Operation, f validation.Field, obj, old O)
	// Validate validates obj, except its metadata. It must not modify obj.
	Validate func(f validation.Field, obj, old O)
	// Warnings returns warnings about an object that has passed validation.
	Warnings func(op *Operation, obj, old O) []string
	// BeginTransaction returns the writes and reservations that are committed together with the write of the
	// object. See registry.BeginTransactionFunc. obj is nil for a deletion.
	BeginTransaction func(op *Operation, obj, old O) (registry.Transaction, error)
}

// Status configures the /status subresource of a kind. The type of the kind must have a field Status. Writes
// to the main resource preserve the status. Writes to /status preserve everything else, except metadata.
type Status[O codec.Object] struct {
	// AllowOnCreate specifies that a new object may have a status. By default, the status is cleared on
	// creation.
	AllowOnCreate bool
	// PreservedMetadata contains the parts of metadata that a write to /status preserves: "metadata" (labels,
	// annotations, finalizers and owners), "metadata.labels" or "metadata.ownerReferences".
	PreservedMetadata []string
	// ResetFields contains the dotted paths of additional fields that a write to /status does not change.
	// MainResetFields contains the paths for a write to the main resource. Both affect managed fields only;
	// the hooks must preserve the values.
	ResetFields, MainResetFields []string

	// The following hooks are the same as in Strategy, for writes to /status. Each may be nil.

	PrepareForUpdate func(op *Operation, obj, old O)
	ValidateExternal func(op *Operation, f validation.Field, obj, old O)
	Validate         func(f validation.Field, obj, old O)
}

// Deletion contains the rules for deletions. The zero value deletes objects immediately and leaves their
// dependents to the garbage collector.
type Deletion[O codec.Object] struct {
	// OrphanByDefault specifies that a deletion without a propagation policy orphans dependents.
	OrphanByDefault bool
	// OrphanWarning is sent for a deletion without a propagation policy, unless it is "".
	OrphanWarning string
	// NoDependents specifies that objects of the kind never own other objects. Propagation policies are then
	// ignored.
	NoDependents bool
	// ForbidName returns the reason why an object with the given name must not be deleted, or "" if it may be
	// deleted. If ForbidName is nil, all objects may be deleted.
	ForbidName func(name string) (reason string)

	// GracePeriod, Blocked and Prepare are the hooks GracePeriod, BlocksRemoval and PrepareForDelete
	// of registry.Strategy. Each may be nil.
	GracePeriod func(obj O, requested *int64) int64
	Blocked     func(obj O) bool
	Prepare     func(obj O)
}

// TTLFunc returns the lifetime of an object after each write. It returns 0 if the object does not expire.
type TTLFunc func(env *Env) time.Duration
