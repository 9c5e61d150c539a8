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

// legacyUnknown is the signer of requests that were stored before there were signers.
const legacyUnknown = "kubernetes.io/legacy-unknown"

// Signers are the names of the signers that requests are signed for.
func Signers() []string {
	return []string{certificatesv1.KubeAPIServerClientSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName, legacyUnknown}
}

// ruleOf returns the rule of a signer; nil for other signers.
func ruleOf(signer string) func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error {
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

// sign issues the certificate of an approved request, or records the error.
func (c *Controller) sign(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	signer := csr.Spec.SignerName
	check := ruleOf(signer)
	if check == nil || !toSign(csr) {
		return nil
	}
	authority := c.config.Authority(signer)
	if authority == nil {
		return nil
	}
	asked, err := pki.ParseRequest(csr.Spec.Request)
	if err != nil {
		return fmt.Errorf("parse the certificate signing request %s: %w", csr.Name, err)
	}
	if fault := check(asked, csr.Spec.Usages); fault != nil {
		return c.fail(ctx, csr, fault)
	}
	certificate, err := issue(authority, asked, csr.Spec.Usages, simulation.From(ctx).Shifted(), lifetime(csr.Spec.ExpirationSeconds, c.config.Lifetime))
	if err != nil {
		return fmt.Errorf("sign the certificate signing request %s: %w", csr.Name, err)
	}
	return c.update(ctx, csr, "status", func(current *certificatesv1.CertificateSigningRequest) {
		if toSign(current) {
			current.Status.Certificate = certificate
		}
	})
}

// toSign reports whether a request waits for its certificate.
func toSign(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Certificate) == 0 && has(csr, certificatesv1.CertificateApproved) &&
		!has(csr, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed)
}

// fail records a permanent error in the request.
func (c *Controller) fail(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, fault error) error {
	return c.update(ctx, csr, "status", func(current *certificatesv1.CertificateSigningRequest) {
		if toSign(current) {
			current.Status.Conditions = append(current.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "SignerValidationFailure", Message: fault.Error(),
			})
		}
	})
}
