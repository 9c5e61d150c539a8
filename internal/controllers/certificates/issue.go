package certificates

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const (
	// backdate is how far NotBefore precedes the time of issue. It allows for clients whose clocks are slow.
	backdate = 5 * time.Minute
	// minLifetime is the minimum lifetime of a certificate. It must exceed backdate.
	minLifetime = 2 * backdate
	// shortLifetime is the minimum lifetime at which backdate is also subtracted from NotAfter, as in
	// kube-controller-manager.
	shortLifetime = 8 * time.Hour
)

// lifetime returns the lifetime of a certificate. It limits the requested lifetime req, in seconds, to the
// range from minLifetime to most. A nil req requests the maximum.
func lifetime(req *int32, most time.Duration) time.Duration {
	if req == nil {
		return most
	}
	return min(max(time.Duration(*req)*time.Second, minLifetime), most)
}

// issue returns a certificate for a request, as PEM. The certificate has the subject and the names of the
// request, but none of its extensions. It does not outlive the authority.
func issue(authority *tls.Certificate, req *x509.CertificateRequest, usages []certificatesv1.KeyUsage, now time.Time, lifetime time.Duration) ([]byte, error) {
	if err := req.CheckSignature(); err != nil {
		return nil, fmt.Errorf("verify its signature: %w", err)
	}
	certificate := &x509.Certificate{
		Subject: req.Subject, DNSNames: req.DNSNames, IPAddresses: req.IPAddresses, EmailAddresses: req.EmailAddresses, URIs: req.URIs,
		BasicConstraintsValid: true,
	}
	if err := setPeriod(certificate, now, lifetime, authority.Leaf.NotAfter); err != nil {
		return nil, err
	}
	if err := setUsages(certificate, usages); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate, authority.Leaf, req.PublicKey, authority.PrivateKey)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// setPeriod sets the validity period of a certificate. ends is the expiration time of the authority's
// certificate.
func setPeriod(certificate *x509.Certificate, now time.Time, lifetime time.Duration, ends time.Time) error {
	if !now.Before(ends) {
		return fmt.Errorf("the signer has expired: NotAfter=%v", ends)
	}
	certificate.NotBefore = now.Add(-backdate)
	certificate.NotAfter = now.Add(lifetime)
	if lifetime >= shortLifetime {
		certificate.NotAfter = certificate.NotAfter.Add(-backdate)
	}
	if certificate.NotAfter.After(ends) {
		certificate.NotAfter = ends
	}
	return nil
}

// setUsages sets the key usages and extended key usages of a certificate. It returns an error for unknown
// usages.
func setUsages(certificate *x509.Certificate, usages []certificatesv1.KeyUsage) error {
	var unknown []certificatesv1.KeyUsage
	for _, usage := range usages {
		if of := keyUsage(usage); of != 0 {
			certificate.KeyUsage |= of
		} else if of, ok := extendedUsage(usage); ok {
			certificate.ExtKeyUsage = append(certificate.ExtKeyUsage, of)
		} else {
			unknown = append(unknown, usage)
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("unrecognized usage values: %q", unknown)
	}
	slices.Sort(certificate.ExtKeyUsage)
	certificate.ExtKeyUsage = slices.Compact(certificate.ExtKeyUsage)
	return nil
}

// keyUsage returns the bit of a key usage, or 0 if the usage is not a key usage.
func keyUsage(usage certificatesv1.KeyUsage) x509.KeyUsage {
	switch usage {
	case certificatesv1.UsageSigning, certificatesv1.UsageDigitalSignature:
		return x509.KeyUsageDigitalSignature
	case certificatesv1.UsageContentCommitment:
		return x509.KeyUsageContentCommitment
	case certificatesv1.UsageKeyEncipherment:
		return x509.KeyUsageKeyEncipherment
	case certificatesv1.UsageKeyAgreement:
		return x509.KeyUsageKeyAgreement
	case certificatesv1.UsageDataEncipherment:
		return x509.KeyUsageDataEncipherment
	case certificatesv1.UsageCertSign:
		return x509.KeyUsageCertSign
	case certificatesv1.UsageCRLSign:
		return x509.KeyUsageCRLSign
	case certificatesv1.UsageEncipherOnly:
		return x509.KeyUsageEncipherOnly
	case certificatesv1.UsageDecipherOnly:
		return x509.KeyUsageDecipherOnly
	}
	return 0
}

// extendedUsage returns the extended key usage for a usage. ok is false if the usage is not an extended key
// usage.
func extendedUsage(usage certificatesv1.KeyUsage) (of x509.ExtKeyUsage, ok bool) {
	switch usage {
	case certificatesv1.UsageAny:
		return x509.ExtKeyUsageAny, true
	case certificatesv1.UsageServerAuth:
		return x509.ExtKeyUsageServerAuth, true
	case certificatesv1.UsageClientAuth:
		return x509.ExtKeyUsageClientAuth, true
	case certificatesv1.UsageCodeSigning:
		return x509.ExtKeyUsageCodeSigning, true
	case certificatesv1.UsageEmailProtection, certificatesv1.UsageSMIME:
		return x509.ExtKeyUsageEmailProtection, true
	case certificatesv1.UsageIPsecEndSystem:
		return x509.ExtKeyUsageIPSECEndSystem, true
	case certificatesv1.UsageIPsecTunnel:
		return x509.ExtKeyUsageIPSECTunnel, true
	case certificatesv1.UsageIPsecUser:
		return x509.ExtKeyUsageIPSECUser, true
	case certificatesv1.UsageTimestamping:
		return x509.ExtKeyUsageTimeStamping, true
	case certificatesv1.UsageOCSPSigning:
		return x509.ExtKeyUsageOCSPSigning, true
	case certificatesv1.UsageMicrosoftSGC:
		return x509.ExtKeyUsageMicrosoftServerGatedCrypto, true
	case certificatesv1.UsageNetscapeSGC:
		return x509.ExtKeyUsageNetscapeServerGatedCrypto, true
	}
	return 0, false
}
