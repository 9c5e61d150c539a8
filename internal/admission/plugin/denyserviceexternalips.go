package plugin

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"mainstay.dev/mainstay/internal/admission"
)

// DenyServiceExternalIPs rejects external IP addresses that a service does not already have.
type DenyServiceExternalIPs struct{ onCreateOrUpdate }

var _ admission.Validator = DenyServiceExternalIPs{}

func denyServiceExternalIPsPlugin() Registration {
	return Registration{
		Name: DenyServiceExternalIPs{}.Name(), Description: "rejects new external IPs of services",
		New: func(Dependencies) admission.Plugin { return DenyServiceExternalIPs{} },
	}
}

// Name implements admission.Plugin.
func (DenyServiceExternalIPs) Name() string { return "DenyServiceExternalIPs" }

// Validate implements admission.Validator.
func (DenyServiceExternalIPs) Validate(_ context.Context, a *admission.Attributes) error {
	service := objectOf[corev1.Service](a, "", "services")
	if service == nil {
		return nil
	}
	var had sets.Set[string]
	if old := oldOf[corev1.Service](a); old != nil {
		had = sets.New(old.Spec.ExternalIPs...)
	}
	isNew := func(ip string) bool { return !had.Has(ip) }
	if slices.ContainsFunc(service.Spec.ExternalIPs, isNew) {
		return reject(a, errors.New("Use of external IPs is denied by admission control"))
	}
	return nil
}
