package plugin

import (
	"context"
	"errors"

	"mainstay.dev/mainstay/internal/admission"
)

// AlwaysAdmit admits all requests. It exists because kube-apiserver's flags can list it.
type AlwaysAdmit struct{}

func alwaysAdmitPlugin() Registration {
	return Registration{
		Name: AlwaysAdmit{}.Name(), Description: "admits all requests",
		New: func(Dependencies) admission.Plugin { return AlwaysAdmit{} },
	}
}

// Name implements admission.Plugin.
func (AlwaysAdmit) Name() string { return "AlwaysAdmit" }

// Handles implements admission.Plugin.
func (AlwaysAdmit) Handles(admission.Operation) bool { return false }

// AlwaysDeny rejects every request that the admission chain processes.
type AlwaysDeny struct{}

var (
	_ admission.Mutator   = AlwaysDeny{}
	_ admission.Validator = AlwaysDeny{}
)

func alwaysDenyPlugin() Registration {
	return Registration{
		Name: AlwaysDeny{}.Name(), Description: "rejects all writes",
		New: func(Dependencies) admission.Plugin { return AlwaysDeny{} },
	}
}

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
	return reject(a, errors.New("admission control is denying all modifications"))
}
