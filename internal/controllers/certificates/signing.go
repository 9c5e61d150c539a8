package certificates

import (
	"context"
	"crypto/x509"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/internal/simulation"
)

// legacyUnknown is the signer of requests that were stored before the field signerName existed.
const legacyUnknown = "kubernetes.io/legacy-unknown"

// Signers returns the names of the signers that the signing controller supports. The caller owns
// the slice.
func Signers() []string {
	return []string{certificatesv1.KubeAPIServerClientSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName, legacyUnknown}
}

// checkOf returns the check for requests to a signer, or nil for an unsupported signer.
func checkOf(signer string) func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error {
	switch signer {
	case certificatesv1.KubeAPIServerClientSignerName:
		return checkClient
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		return checkKubeletClient
	case certificatesv1.KubeletServingSignerName:
		return checkKubeletServing
	case legacyUnknown:
		return func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error { return nil }
	}
	return nil
}

// sign issues the certificate of an approved request. If the request violates the rules of its
// signer, it sets the Failed condition.
func (c *Controller) sign(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	signer := csr.Spec.SignerName
	check := checkOf(signer)
	if check == nil || !needsCertificate(csr) {
		return nil
	}
	authority := c.config.Authority(signer)
	if authority == nil {
		return nil
	}
	req, err := pki.ParseRequest(csr.Spec.Request)
	if err != nil {
		return fmt.Errorf("parse the certificate signing request %s: %w", csr.Name, err)
	}
	if fault := check(req, csr.Spec.Usages); fault != nil {
		return c.setFailed(ctx, csr, fault)
	}
	certificate, err := issue(authority, req, csr.Spec.Usages, simulation.From(ctx).Shifted(), lifetime(csr.Spec.ExpirationSeconds, c.config.Lifetime))
	if err != nil {
		return fmt.Errorf("sign the certificate signing request %s: %w", csr.Name, err)
	}
	return c.update(ctx, csr, "status", func(current *certificatesv1.CertificateSigningRequest) {
		if needsCertificate(current) {
			current.Status.Certificate = certificate
		}
	})
}

// needsCertificate reports whether a request is approved, has no certificate yet, and has not failed.
func needsCertificate(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Certificate) == 0 && hasCondition(csr, certificatesv1.CertificateApproved) &&
		!hasCondition(csr, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed)
}

// setFailed sets the Failed condition. The condition is permanent, so the request is not retried.
func (c *Controller) setFailed(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, fault error) error {
	return c.update(ctx, csr, "status", func(current *certificatesv1.CertificateSigningRequest) {
		if needsCertificate(current) {
			current.Status.Conditions = append(current.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "SignerValidationFailure", Message: fault.Error(),
			})
		}
	})
}
