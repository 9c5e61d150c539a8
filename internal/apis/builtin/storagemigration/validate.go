package storagemigration

import (
	"strings"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

func validateMigration(f validation.Field, m, old *storagemigrationv1.StorageVersionMigration) {
	f, spec := f.Child("spec"), &m.Spec
	resource := f.Child("resource")
	if spec.Resource.Resource == "" {
		resource.Child("resource").Required("resource is required to be set")
	} else if problems := utilvalidation.IsDNS1035Label(spec.Resource.Resource); len(problems) > 0 {
		resource.Child("resource").Invalid(spec.Resource.Resource, strings.Join(problems, ","))
	}
	if spec.Resource.Group != "" {
		resource.Child("group").DNSSubdomain(spec.Resource.Group)
	}
	if old != nil {
		validation.Immutable(f, *spec, old.Spec)
	}
}

// validateMigrationStatus rejects contradictory conditions. If a migration has ended, its final condition must
// stay true.
func validateMigrationStatus(f validation.Field, m, old *storagemigrationv1.StorageVersionMigration) {
	f, status := f.Child("status"), &m.Status
	validateResourceVersion(f.Child("resourceVersion"), status.ResourceVersion, old.Status.ResourceVersion)
	f = f.Child("conditions")
	if len(status.Conditions) > 0 {
		f.Add(metav1validation.ValidateConditions(status.Conditions, f.Path())...)
	}
	now, before := stateOf(status.Conditions), stateOf(old.Status.Conditions)
	for _, fault := range [...]struct {
		found bool
		text  string
	}{
		{now.succeeded && now.failed, "Both success and failed conditions cannot be true at the same time"},
		{now.succeeded && now.running, "Running condition cannot be true when success condition is true"},
		{now.failed && now.running, "Running condition cannot be true when failed condition is true"},
		{before.succeeded && !now.succeeded, "Success condition cannot be set to false once it is true"},
		{before.failed && !now.failed, "Failed condition cannot be set to false once it is true"},
	} {
		if fault.found {
			f.Invalid(status.Conditions, fault.text)
		}
	}
}

// validateResourceVersion requires that the resource version of a migration is valid and does not
// change once it is set.
func validateResourceVersion(f validation.Field, version, old string) {
	if version != "" {
		if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
			f.Invalid(version, err.Error())
		}
	}
	if old != "" && version != old {
		f.Invalid(version, "field is immutable")
	}
}

// state contains the true conditions of a migration.
type state struct{ running, succeeded, failed bool }

func stateOf(conditions []metav1.Condition) state {
	var s state
	for i := range conditions {
		if conditions[i].Status != metav1.ConditionTrue {
			continue
		}
		switch storagemigrationv1.MigrationConditionType(conditions[i].Type) {
		case storagemigrationv1.MigrationRunning:
			s.running = true
		case storagemigrationv1.MigrationSucceeded:
			s.succeeded = true
		case storagemigrationv1.MigrationFailed:
			s.failed = true
		}
	}
	return s
}
