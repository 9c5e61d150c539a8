package core

import (
	"context"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin/declarative/meta"
)

// Markers in the API types refer to the following rules by name.

// ValidateCustom_EvictionResponder_Name rejects names in the domains of Kubernetes.
func ValidateCustom_EvictionResponder_Name(_ context.Context, _ operation.Operation, path *field.Path, name, _ *string) field.ErrorList {
	return meta.ReservedDomain(path, *name)
}

// ValidateCustom_EvictionResponder_Priority reserves priorities below 1000 for the responders of
// Kubernetes.
func ValidateCustom_EvictionResponder_Priority(_ context.Context, _ operation.Operation, path *field.Path, priority, _ *int32) field.ErrorList {
	if priority != nil && *priority >= 0 && *priority < 1000 {
		return field.ErrorList{field.Invalid(path, *priority, "priorities 0-999 are reserved for responders with *.k8s.io suffix")}
	}
	return nil
}
