package core

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Markers ask for the following rules by these names.

// ValidateCustom_EvictionResponder_Name refuses names in the domains of Kubernetes.
func ValidateCustom_EvictionResponder_Name(_ context.Context, _ operation.Operation, path *field.Path, name, _ *string) field.ErrorList {
	domain, _, _ := strings.Cut(*name, "/")
	domain = "." + strings.TrimRight(strings.ToLower(domain), ".")
	if strings.HasSuffix(domain, ".k8s.io") || strings.HasSuffix(domain, ".kubernetes.io") {
		return field.ErrorList{field.Invalid(path, *name, "domain names *.k8s.io, *.kubernetes.io are reserved")}
	}
	return nil
}

// ValidateCustom_EvictionResponder_Priority keeps the priorities below 1000 for
// Kubernetes' own responders.
func ValidateCustom_EvictionResponder_Priority(_ context.Context, _ operation.Operation, path *field.Path, priority, _ *int32) field.ErrorList {
	if priority != nil && *priority >= 0 && *priority < 1000 {
		return field.ErrorList{field.Invalid(path, *priority, "priorities 0-999 are reserved for responders with *.k8s.io suffix")}
	}
	return nil
}
