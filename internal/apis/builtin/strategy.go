package builtin

import (
	"context"
	"time"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry"
)

// Operation is the write during which a hook is called.
type Operation struct {
	// Context is the context of the request.
	Context context.Context
	// Env is the environment of the control plane whose object is written.
	Env *Env
	// DryRun reports that the write is not committed. It is set for BeginTransaction only.
	DryRun bool
}

// Strategy contains the hooks for writes of a resource. Each hook may be nil. A write calls them in
// the order of the fields; old is nil on creation.
type Strategy[O codec.Object] struct {
	// Default sets default values when an object is decoded from a request or from storage. It must
	// be idempotent.
	Default func(obj O)
	// Authorize returns an API error if the user may not write the content of obj.
	Authorize func(op *Operation, obj, old O) error
	// GatedFields are the fields of feature gates that may be disabled. They are dropped before
	// PrepareForCreate, and after PrepareForUpdate, which may count a dropped field as a change.
	GatedFields []GatedFields[O]
	// PrepareForCreate and PrepareForUpdate set and clear the fields that the server owns.
	PrepareForCreate func(op *Operation, obj O)
	PrepareForUpdate func(op *Operation, obj, old O)
	// SpecChanged reports whether an update increments the generation. nil compares the spec or, for types
	// without a spec, all fields except metadata and status.
	SpecChanged func(obj, old O) bool

	// ValidateExternal validates obj against state outside of it: other objects, the authorizer and
	// the configuration of the server. It runs before Validate.
	ValidateExternal func(op *Operation, f validation.Field, obj, old O)
	// Validate validates obj, except its metadata. It must not modify obj.
	Validate func(f validation.Field, obj, old O)
	// Warnings returns warnings for a valid object.
	Warnings func(op *Operation, obj, old O) []string
	// BeginTransaction returns the writes and reservations that are committed together with an
	// object: see registry.BeginTransactionFunc. obj is nil for a deletion.
	BeginTransaction func(op *Operation, obj, old O) (registry.Transaction, error)
}

// Status configures the subresource /status of a kind, whose type must have a field Status. Writes
// to the resource preserve the status. Writes to /status preserve everything else, except metadata.
type Status[O codec.Object] struct {
	// AllowOnCreate permits a status on creation. By default, it is cleared.
	AllowOnCreate bool
	// PreservedMetadata is the part of metadata that a write to /status preserves: "metadata"
	// (labels, annotations, finalizers and owners), "metadata.labels" or
	// "metadata.ownerReferences".
	PreservedMetadata []string
	// ResetFields are the dotted paths of additional fields that a write to /status does not change, and
	// MainResetFields the paths for a write to the resource itself. They affect managed fields only; the
	// hooks must preserve the values.
	ResetFields, MainResetFields []string

	// The following hooks are the same as in Strategy, for writes to /status. Each may be nil.

	PrepareForUpdate func(op *Operation, obj, old O)
	ValidateExternal func(op *Operation, f validation.Field, obj, old O)
	Validate         func(f validation.Field, obj, old O)
}

// Deletion contains the rules for deletions. The zero value deletes objects immediately, and leaves
// their dependents to the garbage collector.
type Deletion[O codec.Object] struct {
	// OrphanByDefault orphans dependents if a deletion has no propagation policy.
	OrphanByDefault bool
	// OrphanWarning is sent for a deletion without a propagation policy; "" sends no warning.
	OrphanWarning string
	// NoDependents reports that objects of the kind own no other objects. Propagation policies are then
	// ignored.
	NoDependents bool
	// ForbidName returns the reason why the object with a name must not be deleted, or "". nil
	// permits all deletions.
	ForbidName func(name string) (reason string)

	// GracePeriod, Blocked and Prepare are the hooks GracePeriod, BlocksRemoval and PrepareForDelete
	// of registry.Strategy. Each may be nil.
	GracePeriod func(obj O, requested *int64) int64
	Blocked     func(obj O) bool
	Prepare     func(obj O)
}

// TTLFunc returns the lifetime of an object after each write; 0 if it does not expire.
type TTLFunc func(env *Env) time.Duration
