package plugin

import (
	"context"

	"mainstay.dev/mainstay/internal/admission"
)

// JobValidation validates updates of jobs that are scheduled as a group. As in kube-apiserver
// v1.37, it has no effect yet.
type JobValidation struct{ onUpdate }

var _ admission.Validator = JobValidation{}

func jobValidationPlugin() Registration {
	return Registration{
		Name: JobValidation{}.Name(), Description: "has no effect, as in kube-apiserver v1.37",
		OnByDefault: true,
		New:         func(Dependencies) admission.Plugin { return JobValidation{} },
	}
}

// Name implements admission.Plugin.
func (JobValidation) Name() string { return "JobValidation" }

// Validate implements admission.Validator.
func (JobValidation) Validate(context.Context, *admission.Attributes) error { return nil }
