package core

import (
	"context"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin/declarative/meta"
)

// A +k8s:customValidation marker in the API types calls each of the following functions.

// ValidateCustom_EvictionResponder_Name rejects names in domains that are reserved for Kubernetes.
func ValidateCustom_EvictionResponder_Name(_ context.Context, _ operation.Operation, path *field.Path, name, _ *string) field.ErrorList {
	return meta.ReservedDomain(path, *name)
}

// ValidateCustom_EvictionResponder_Priority rejects priorities from 0 to 999, which are reserved for the
// responders of Kubernetes.
func ValidateCustom_EvictionResponder_Priority(_ context.Context, _ operation.Operation, path *field.Path, priority, _ *int32) field.ErrorList {
	if priority != nil && *priority >= 0 && *priority < 1000 {
		return field.ErrorList{field.Invalid(path, *priority, "priorities 0-999 are reserved for responders with *.k8s.io suffix")}
	}
	return nil
}
