package certificates

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/mail"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/simulation"
)

const (
	maxChain    = 100 << 10
	minLifetime = time.Hour
	// maxClockSkew is the maximum allowed difference between the clocks of a signer and this server.
	maxClockSkew = 5 * time.Minute
	// refreshMargin is the minimum time for which a certificate must be valid before and after its refresh
	// time.
	refreshMargin = 10 * time.Minute
)

// validatePodRequestStatus validates the result of a request. The result is either a certificate with its
// times, or a condition that the request was denied or has failed. Once set, the result cannot change.
func validatePodRequestStatus(f validation.Field, r, old *certificatesv1.PodCertificateRequest) {
	f, status := f.Child("status"), &r.Status
	before := f.ErrorCount()
	validatePodConditions(f.Child("conditions"), status.Conditions)
	if f.ErrorCount() > before {
		return
	}
	changed := validation.Changed(*status, old.Status)
	switch {
	case outcome(old) != "":
		if changed {
			f.Invalid(field.OmitValueType{}, "immutable after PodCertificateRequest is issued, denied, or failed")
		}
	case outcome(r) == "":
		if changed {
			f.Invalid(field.OmitValueType{}, `status is immutable unless transitioning to "Issued", "Denied", or "Failed"`)
		}
	case outcome(r) == certificatesv1.PodCertificateRequestConditionTypeIssued:
		validateIssued(f, r, simulation.Now(f.Context()))
	default:
		if validation.Changed(*status, certificatesv1.PodCertificateRequestStatus{Conditions: status.Conditions}) {
			f.Invalid(field.OmitValueType{}, "non-condition status fields must be empty when denying or failing the PodCertificateRequest")
		}
	}
}

func validatePodConditions(f validation.Field, conditions []metav1.Condition) {
	issued, denied, failed := certificatesv1.PodCertificateRequestConditionTypeIssued,
		certificatesv1.PodCertificateRequestConditionTypeDenied, certificatesv1.PodCertificateRequestConditionTypeFailed
	outcomes := 0
	for i := range conditions {
		// As in kube-apiserver, these paths contain a dot before the index.
		at := f.Child(fmt.Sprintf("[%d]", i))
		switch kind := conditions[i].Type; kind {
		case issued, denied, failed:
			if outcomes++; outcomes > 1 {
				at.Child("type").Invalid(kind, `There may be at most one condition with type "Issued", "Denied", or "Failed"`)
			}
			validation.OneOf(at.Child("status"), conditions[i].Status, metav1.ConditionTrue)
		default:
			validation.NotSupported(at.Child("type"), kind, issued, denied, failed)
		}
	}
	if len(conditions) > 0 {
		f.Add(metav1validation.ValidateConditions(conditions, f.Path())...)
	}
}

// outcome returns the type of the condition that contains the result of a request, or "" if the request has no
// result yet.
func outcome(r *certificatesv1.PodCertificateRequest) string {
	for i := range r.Status.Conditions {
		if c := &r.Status.Conditions[i]; c.Status == metav1.ConditionTrue && podRequestState(r) == c.Type {
			return c.Type
		}
	}
	return ""
}

// validateIssued validates an issued certificate. As in kube-apiserver, it stops at the first rule that is
// violated, because later rules depend on earlier ones.
func validateIssued(f validation.Field, r *certificatesv1.PodCertificateRequest, now time.Time) {
	leaf, rest := parseLeaf(f.Child("certificateChain"), r.Status.CertificateChain)
	if leaf == nil {
		return
	}
	before := f.ErrorCount()
	validateLeaf(f.Child("certificateChain"), r, leaf)
	if f.ErrorCount() > before || !hasTimes(f, &r.Status) {
		return
	}
	if place, value, problem := timesProblem(r, leaf, now); problem != "" {
		f.Child(place).Invalid(value, problem)
		return
	}
	validateIntermediates(f.Child("certificateChain"), r.Status.CertificateChain, rest)
}

// parseLeaf returns the first certificate of a chain and the text that follows it. The certificate is nil if
// the chain contains none.
func parseLeaf(f validation.Field, chain string) (*x509.Certificate, []byte) {
	if len(chain) > maxChain {
		f.TooLong(maxChain)
		return nil, nil
	}
	block, rest := pem.Decode([]byte(chain))
	if block == nil {
		f.Invalid(chain, "issued certificate chain must contain at least one certificate")
		return nil, nil
	}
	if block.Type != certificateBlock {
		f.Invalid(chain, "issued certificate chain must consist entirely of CERTIFICATE PEM blocks")
		return nil, nil
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		f.Invalid(chain, "leaf certificate does not parse as valid X.509")
		return nil, nil
	}
	return leaf, rest
}

// validateLeaf requires that a certificate has the requested key and that its names are valid.
func validateLeaf(f validation.Field, r *certificatesv1.PodCertificateRequest, leaf *x509.Certificate) {
	for _, name := range leaf.DNSNames {
		if name == "" {
			f.Invalid(name, "leaf certificate should not contain empty DNSName")
		}
		if strings.Contains(name, "..") {
			f.Invalid(name, "leaf certificate's DNSName should not contain '..'")
		}
		if strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") {
			f.Invalid(name, "leaf certificate's DNSName should not start or end with '.'")
		}
	}
	for _, address := range leaf.EmailAddresses {
		if _, err := mail.ParseAddress(address); err != nil {
			f.Invalid(address, "leaf certificate should not contain invalid EmailAddress")
		}
	}
	request, err := x509.ParseCertificateRequest(r.Spec.StubPKCS10Request)
	if err != nil { // the request was created in an older version, with fields that v1 does not have
		return
	}
	asked, ok := request.PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !asked.Equal(leaf.PublicKey) {
		f.Invalid(r.Status.CertificateChain, "leaf certificate was not issued to the requested public key")
	}
}

func hasTimes(f validation.Field, status *certificatesv1.PodCertificateRequestStatus) bool {
	const consistent = "must be present and consistent with the issued certificate"
	if status.NotBefore == nil {
		f.Child("notBefore").Required(consistent)
	}
	if status.NotAfter == nil {
		f.Child("notAfter").Required(consistent)
	}
	if status.BeginRefreshAt == nil {
		f.Child("beginRefreshAt").Required("must be present and in the range [notbefore+10min, notafter-10min]")
	}
	return status.NotBefore != nil && status.NotAfter != nil && status.BeginRefreshAt != nil
}

// timesProblem returns the first invalid time in a status, with the field and the value of the time. problem
// is "" if all times are valid.
func timesProblem(r *certificatesv1.PodCertificateRequest, leaf *x509.Certificate, now time.Time) (place string, value any, problem string) {
	begin, end, refresh := r.Status.NotBefore.Time, r.Status.NotAfter.Time, r.Status.BeginRefreshAt.Time
	lifetime, most := leaf.NotAfter.Sub(leaf.NotBefore), *r.Spec.MaxExpirationSeconds
	switch {
	case !begin.Equal(leaf.NotBefore):
		return "notBefore", begin, "must be set to the NotBefore time encoded in the leaf certificate"
	case begin.Sub(now).Abs() >= maxClockSkew:
		return "notBefore", begin, "must be set to within 5 minutes of kube-apiserver's current time"
	case !end.Equal(leaf.NotAfter):
		return "notAfter", end, "must be set to the NotAfter time encoded in the leaf certificate"
	case lifetime < minLifetime:
		return "certificateChain", lifetime, "leaf certificate lifetime must be >= 1 hour"
	case lifetime > time.Duration(most)*time.Second:
		return "certificateChain", lifetime, fmt.Sprintf("leaf certificate lifetime must be <= spec.maxExpirationSeconds (%d)", most)
	case refresh.Before(begin.Add(refreshMargin)):
		return "beginRefreshAt", refresh, "must be at least 10 minutes after status.notBefore"
	case refresh.After(end.Add(-refreshMargin)):
		return "beginRefreshAt", refresh, "must be at least 10 minutes before status.notAfter"
	}
	return "", nil, ""
}

// validateIntermediates validates the syntax of intermediate certificates. It does not verify the chain. This
// is done by clients, which trust one of the certificates.
func validateIntermediates(f validation.Field, chain string, text []byte) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != certificateBlock {
			f.Invalid(chain, "issued certificate chain must consist entirely of CERTFICATE PEM blocks")
			return
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			f.Invalid(chain, "intermediate certificate does not parse as valid X.509")
			return
		}
	}
}
