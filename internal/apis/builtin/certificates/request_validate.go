package certificates

import (
	"bytes"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/host/pki"
)

const (
	minExpiration    = 600 // seconds
	legacySigner     = "kubernetes.io/legacy-unknown"
	certificateBlock = "CERTIFICATE"
)

// validateRequest validates a new request. Updates do not need validation, because the spec is immutable.
func validateRequest(f validation.Field, csr, old *certificatesv1.CertificateSigningRequest) {
	if old != nil {
		return
	}
	f, spec := f.Child("spec"), &csr.Spec
	if err := checkRequest(spec.Request); err != nil {
		f.Child("request").Invalid(spec.Request, err.Error())
	}
	if len(spec.Usages) == 0 {
		f.Child("usages").Required("")
	}
	seen := validation.NewDuplicates[certificatesv1.KeyUsage](len(spec.Usages))
	for i, usage := range spec.Usages {
		validateUsage(f.Child("usages").Index(i), usage)
		if seen.IsDuplicate(usage) {
			f.Child("usages").Index(i).Duplicate(usage)
		}
	}
	if spec.SignerName == legacySigner {
		f.Child("signerName").Invalid(spec.SignerName, "the legacy signerName is not allowed via this API version")
	} else {
		f.Child("signerName").SignerName(spec.SignerName)
	}
	if seconds := spec.ExpirationSeconds; seconds != nil && *seconds < minExpiration {
		f.Child("expirationSeconds").Invalid(*seconds, "may not specify a duration less than 600 seconds (10 minutes)")
	}
}

// checkRequest requires a PKCS #10 request that is signed with the key that it contains.
func checkRequest(text []byte) error {
	request, err := pki.ParseRequest(text)
	if err != nil {
		return err
	}
	if key, ok := request.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() > maxRSABits {
		return fmt.Errorf("an RSA key may have at most %d bits", maxRSABits)
	}
	return request.CheckSignature()
}

// maxRSABits is the maximum size of RSA keys. The time to verify a signature is quadratic in the key size, and
// would be half an hour for a key of 1 MiB. OpenSSL has the same limit.
const maxRSABits = 16 << 10

func validateUsage(f validation.Field, usage certificatesv1.KeyUsage) {
	validation.OneOf(f, usage,
		certificatesv1.UsageAny, certificatesv1.UsageCertSign, certificatesv1.UsageClientAuth, certificatesv1.UsageCodeSigning,
		certificatesv1.UsageContentCommitment, certificatesv1.UsageCRLSign, certificatesv1.UsageDataEncipherment,
		certificatesv1.UsageDecipherOnly, certificatesv1.UsageDigitalSignature, certificatesv1.UsageEmailProtection,
		certificatesv1.UsageEncipherOnly, certificatesv1.UsageIPsecEndSystem, certificatesv1.UsageIPsecTunnel,
		certificatesv1.UsageIPsecUser, certificatesv1.UsageKeyAgreement, certificatesv1.UsageKeyEncipherment,
		certificatesv1.UsageMicrosoftSGC, certificatesv1.UsageNetscapeSGC, certificatesv1.UsageOCSPSigning,
		certificatesv1.UsageSMIME, certificatesv1.UsageServerAuth, certificatesv1.UsageSigning, certificatesv1.UsageTimestamping)
}

// validateRequestStatus validates a write to /status. It rejects the addition and removal of approvals and
// denials, because signers must not change them.
func validateRequestStatus(f validation.Field, csr, old *certificatesv1.CertificateSigningRequest) {
	f = f.Child("status")
	validateRequestConditions(f.Child("conditions"), csr, old)
	for _, decision := range [...]certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied} {
		if count(csr, decision) > count(old, decision) {
			f.Child("conditions").Forbidden(fmt.Sprintf("updates may not add a condition of type %q", decision))
		}
	}
	if bytes.Equal(csr.Status.Certificate, old.Status.Certificate) {
		return
	}
	if len(old.Status.Certificate) > 0 {
		f.Child("certificate").Forbidden("updates may not modify existing certificate content")
	}
	if err := checkCertificates(csr.Status.Certificate); err != nil && checkCertificates(old.Status.Certificate) == nil {
		f.Child("certificate").Invalid("<certificate data>", err.Error())
	}
}

func validateApproval(f validation.Field, csr, old *certificatesv1.CertificateSigningRequest) {
	validateRequestConditions(f.Child("status").Child("conditions"), csr, old)
}

// validateRequestConditions validates conditions. It tolerates violations of newer rules that stored
// conditions already have.
func validateRequestConditions(f validation.Field, csr, old *certificatesv1.CertificateSigningRequest) {
	tolerated := violationsOf(old.Status.Conditions)
	if violationsOf(csr.Status.Conditions).both && !tolerated.both { // the message is the one of the equivalent declarative rule
		f.Invalid(`{conditions[{"type": "Approved"}], conditions[{"type": "Denied"}]}`,
			"must specify at most one of: `conditions[{\"type\": \"Approved\"}]`, `conditions[{\"type\": \"Denied\"}]`")
	}
	seen := validation.NewDuplicates[certificatesv1.RequestConditionType](len(csr.Status.Conditions))
	for i := range csr.Status.Conditions {
		condition, at := &csr.Status.Conditions[i], f.Index(i)
		if condition.Type == "" && !tolerated.untyped {
			at.Child("type").Required("")
		}
		if seen.IsDuplicate(condition.Type) && !tolerated.duplicate {
			at.Child("type").Duplicate(condition.Type)
		}
		validateConditionStatus(at.Child("status"), condition)
	}
	for _, final := range [...]certificatesv1.RequestConditionType{
		certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed,
	} {
		if count(csr, final) < count(old, final) {
			f.Forbidden(fmt.Sprintf("updates may not remove a condition of type %q", final))
		}
	}
}

func validateConditionStatus(f validation.Field, condition *certificatesv1.CertificateSigningRequestCondition) {
	if condition.Status == "" {
		f.Required("")
		return
	}
	switch condition.Type {
	case certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
		validation.OneOf(f, condition.Status, corev1.ConditionTrue)
	default:
		validation.OneOf(f, condition.Status, corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown)
	}
}

// violations specifies which newer rules are violated. Stored conditions may violate them.
type violations struct {
	both      bool // both approved and denied
	untyped   bool // a condition has no type
	duplicate bool // several conditions of the same type
}

func violationsOf(conditions []certificatesv1.CertificateSigningRequestCondition) violations {
	var found violations
	var approved, denied bool
	seen := validation.NewDuplicates[certificatesv1.RequestConditionType](len(conditions))
	for i := range conditions {
		kind := conditions[i].Type
		switch kind {
		case certificatesv1.CertificateApproved:
			approved = true
		case certificatesv1.CertificateDenied:
			denied = true
		case "":
			found.untyped = true
		}
		found.duplicate = seen.IsDuplicate(kind) || found.duplicate
	}
	found.both = approved && denied
	return found
}

func count(csr *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) int {
	n := 0
	for i := range csr.Status.Conditions {
		if csr.Status.Conditions[i].Type == kind {
			n++
		}
	}
	return n
}

// checkCertificates requires that text consists of PEM blocks with certificates. An empty text is accepted.
func checkCertificates(text []byte) error {
	if len(text) == 0 {
		return nil
	}
	blocks := 0
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != certificateBlock {
			return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
		}
		if len(block.Headers) > 0 {
			return errors.New("no PEM block headers are permitted")
		}
		certificates, err := x509.ParseCertificates(block.Bytes)
		if err != nil {
			return err
		}
		if len(certificates) == 0 {
			return errors.New("found CERTIFICATE PEM block containing 0 certificates")
		}
		blocks++
	}
	if blocks == 0 {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}
