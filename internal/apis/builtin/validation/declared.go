package validation

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/feature"
)

// DeclaredRules is a validation function that was generated from the +k8s: markers of a type. See package
// declarative.
type DeclaredRules[T any] func(ctx context.Context, op operation.Operation, path *field.Path, obj, old *T) field.ErrorList

// ValidateDeclared runs generated rules on obj, which is the value of f, and reports the errors that are
// enforced. Errors of beta markers are enforced if the feature gate DeclarativeValidationBeta is enabled.
// Errors of alpha markers are never enforced (KEP-5073). old is nil on creation. subresource is the
// subresource that is written, or "" for the main resource.
func ValidateDeclared[T any](f Field, rules DeclaredRules[T], obj, old *T, subresource string) {
	op := operation.Operation{Type: operation.Create, Options: f.object.validator.options}
	if old != nil {
		op.Type = operation.Update
	}
	if subresource != "" {
		op.Request.Subresources = strings.Split(subresource, "/")
	}
	errs := rules(f.Context(), op, f.Path(), obj, old)
	beta := f.Enabled(feature.DeclarativeValidationBeta)
	f.Add(slices.DeleteFunc(errs, func(e *field.Error) bool { return e.IsAlpha() || e.IsBeta() && !beta })...)
}

// declaredOptions returns all feature gates that markers mention, and whether each gate is enabled.
func declaredOptions(gates feature.Gates) map[string]bool {
	options := make(map[string]bool)
	for _, gate := range [...]feature.Gate{
		feature.CompositePodGroup, feature.DRAPartitionableDevicesType, feature.InPlacePodVerticalScalingSchedulerPreemption,
		feature.PodGroupPreemptionPolicy, feature.TopologyAwareWorkloadScheduling, feature.WorkloadWithJob,
	} {
		options[string(gate)] = gates.Enabled(gate)
	}
	return options
}
