package plugin

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/authorizer"
)

// CertificateApproval rejects the approval or denial of a certificate request if the user does not have
// permission for its signer.
type CertificateApproval struct {
	onUpdate
	Authorizer authorizer.Authorizer
}

var _ admission.Validator = CertificateApproval{}

func certificateApprovalPlugin() Registration {
	return Registration{
		Name: CertificateApproval{}.Name(), Description: "rejects the approval of certificate requests without the permission for the signer",
		OnByDefault: true,
		New:         func(d Dependencies) admission.Plugin { return CertificateApproval{Authorizer: d.Authorizer} },
	}
}

// Name implements admission.Plugin.
func (CertificateApproval) Name() string { return "CertificateApproval" }

// Validate implements admission.Validator. It checks the permission for the signer of the stored request, not
// of the updated one.
func (p CertificateApproval) Validate(ctx context.Context, a *admission.Attributes) error {
	old := oldOf[certificatesv1.CertificateSigningRequest](a)
	if old == nil || !isFor(a, certificatesv1.GroupName, "certificatesigningrequests", "approval") {
		return nil
	}
	if signer := old.Spec.SignerName; !isSignerAllowed(ctx, p.Authorizer, a, "approve", signer) {
		return reject(a, fmt.Errorf("user not permitted to approve requests with signerName %q", signer))
	}
	return nil
}
