package meta

import (
	"context"

	"k8s.io/apimachinery/pkg/api/operation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateCustom_Condition_LastTransitionTime calls the function with the same name in package validation. The
// generated code expects the function in this package.
func ValidateCustom_Condition_LastTransitionTime(ctx context.Context, op operation.Operation, path *field.Path, value, old *metav1.Time) field.ErrorList {
	return validation.ValidateCustom_Condition_LastTransitionTime(ctx, op, path, value, old)
}
