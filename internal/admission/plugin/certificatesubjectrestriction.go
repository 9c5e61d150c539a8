package plugin

import (
	"context"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/internal/request"
)

// CertificateSubjectRestriction rejects requests for client certificates whose subject belongs to the group
// system:masters.
type CertificateSubjectRestriction struct{ onCreate }

var _ admission.Validator = CertificateSubjectRestriction{}

func certificateSubjectRestrictionPlugin() Registration {
	return Registration{
		Name: CertificateSubjectRestriction{}.Name(), Description: "rejects requests for client certificates of the group system:masters",
		OnByDefault: true,
		New:         func(Dependencies) admission.Plugin { return CertificateSubjectRestriction{} },
	}
}

// Name implements admission.Plugin.
func (CertificateSubjectRestriction) Name() string { return "CertificateSubjectRestriction" }

// Validate implements admission.Validator.
func (CertificateSubjectRestriction) Validate(_ context.Context, a *admission.Attributes) error {
	const signer = certificatesv1.KubeAPIServerClientSignerName
	csr := objectOf[certificatesv1.CertificateSigningRequest](a, certificatesv1.GroupName, "certificatesigningrequests")
	if csr == nil || csr.Spec.SignerName != signer {
		return nil
	}
	parsed, err := pki.ParseRequest(csr.Spec.Request)
	if err != nil {
		return reject(a, fmt.Errorf("failed to parse CSR: %w", err))
	}
	if slices.Contains(parsed.Subject.Organization, request.GroupMasters) {
		return reject(a, fmt.Errorf("use of %s signer with %s group is not allowed", signer, request.GroupMasters))
	}
	return nil
}
