package plugin

import (
	"context"
	"errors"

	"mainstay.dev/mainstay/internal/admission"
)

// AlwaysAdmit admits all requests. kube-apiserver has it for compatibility with existing flags.
type AlwaysAdmit struct{}

// Name implements admission.Plugin.
func (AlwaysAdmit) Name() string { return "AlwaysAdmit" }

// Handles implements admission.Plugin.
func (AlwaysAdmit) Handles(admission.Operation) bool { return false }

// AlwaysDeny rejects all mutating requests.
type AlwaysDeny struct{}

var (
	_ admission.Mutator   = AlwaysDeny{}
	_ admission.Validator = AlwaysDeny{}
)

// Name implements admission.Plugin.
func (AlwaysDeny) Name() string { return "AlwaysDeny" }

// Handles implements admission.Plugin.
func (AlwaysDeny) Handles(admission.Operation) bool { return true }

// Mutate implements admission.Mutator.
func (p AlwaysDeny) Mutate(ctx context.Context, a *admission.Attributes) error {
	return p.Validate(ctx, a)
}

// Validate implements admission.Validator.
func (AlwaysDeny) Validate(_ context.Context, a *admission.Attributes) error {
	return refuse(a, errors.New("admission control is denying all modifications"))
}
