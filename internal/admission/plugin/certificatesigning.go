package plugin

import (
	"bytes"
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/authorizer"
)

// CertificateSigning rejects changes to the certificate or the conditions of a certificate request if the user
// does not have permission for its signer.
type CertificateSigning struct {
	onUpdate
	Authorizer authorizer.Authorizer
}

var _ admission.Validator = CertificateSigning{}

func certificateSigningPlugin() Registration {
	return Registration{
		Name: CertificateSigning{}.Name(), Description: "rejects the signing of certificate requests without the permission for the signer",
		OnByDefault: true,
		New:         func(d Dependencies) admission.Plugin { return CertificateSigning{Authorizer: d.Authorizer} },
	}
}

// Name implements admission.Plugin.
func (CertificateSigning) Name() string { return "CertificateSigning" }

// Validate implements admission.Validator. It checks the permission for the signer of the stored request, not
// of the updated one.
func (p CertificateSigning) Validate(ctx context.Context, a *admission.Attributes) error {
	if !isFor(a, certificatesv1.GroupName, "certificatesigningrequests", "status") {
		return nil
	}
	csr, _ := a.Object.(*certificatesv1.CertificateSigningRequest)
	old := oldOf[certificatesv1.CertificateSigningRequest](a)
	if csr == nil || old == nil || sameIssue(&csr.Status, &old.Status) {
		return nil
	}
	if signer := old.Spec.SignerName; !isSignerAllowed(ctx, p.Authorizer, a, "sign", signer) {
		return reject(a, fmt.Errorf("user not permitted to sign requests with signerName %q", signer))
	}
	return nil
}

// sameIssue reports whether the certificate and the conditions are unchanged.
func sameIssue(status, old *certificatesv1.CertificateSigningRequestStatus) bool {
	return bytes.Equal(status.Certificate, old.Certificate) && equality.Semantic.DeepEqual(status.Conditions, old.Conditions)
}
