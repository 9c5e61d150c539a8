package plugin

import (
	"context"
	"errors"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/registry/quota"
)

// ResourceQuota rejects requests that exceed the quotas of the namespace. It charges nothing: the storage
// charges admitted requests when it writes the objects (see quota.Ledger.Account).
type ResourceQuota struct {
	onCreateOrUpdate
	Ledger *quota.Ledger
}

var _ admission.Validator = ResourceQuota{}

func resourceQuotaPlugin() Registration {
	return Registration{
		Name: ResourceQuota{}.Name(), Description: "counts objects against ResourceQuotas, and rejects writes above a limit",
		OnByDefault: true,
		New:         func(d Dependencies) admission.Plugin { return ResourceQuota{Ledger: d.Quotas} },
	}
}

// Name implements admission.Plugin.
func (ResourceQuota) Name() string { return "ResourceQuota" }

// Validate implements admission.Validator.
func (p ResourceQuota) Validate(ctx context.Context, a *admission.Attributes) error {
	obj, ok := a.Object.(codec.Object)
	if !ok || !a.Resource.Namespaced {
		return nil
	}
	err := p.Ledger.Check(ctx, &quota.Write{
		Resource: a.Resource.GroupResource(), Subresource: a.Resource.Subresource, Namespace: a.Namespace, Object: obj, Old: a.Old,
	})
	if errors.As(err, new(quota.DeniedError)) {
		return reject(a, err)
	}
	return err
}
