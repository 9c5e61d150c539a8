package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
)

const (
	maxBundle = 1 << 20
	// hidden replaces certificates in error messages.
	hidden = "<value omitted>"
)

// validateBundle validates a trust bundle. It validates certificates only if they change, so that the labels
// of a bundle can still be updated if a newer Go release parses certificates more strictly.
func validateBundle(f validation.Field, bundle, old *certificatesv1.ClusterTrustBundle) {
	validateBundleName(f, bundle, old)
	f = f.Child("spec")
	if signer := bundle.Spec.SignerName; signer != "" {
		f.Child("signerName").SignerName(signer)
	}
	if old != nil {
		validation.Immutable(f.Child("signerName"), bundle.Spec.SignerName, old.Spec.SignerName)
	}
	if old == nil || bundle.Spec.TrustBundle != old.Spec.TrustBundle {
		validateAnchors(f.Child("trustBundle"), bundle.Spec.TrustBundle)
	}
}

// validateBundleName requires that the name of a bundle is a DNS subdomain. If the bundle has a signer, the
// name must start with the name of the signer.
func validateBundleName(f validation.Field, bundle, old *certificatesv1.ClusterTrustBundle) {
	if old != nil && bundle.Spec.SignerName == old.Spec.SignerName {
		return
	}
	metadata := f.Child("metadata")
	if name := bundle.GenerateName; name != "" {
		metadata.Child("generateName").InvalidFor(name, bundleNameProblems(bundle.Spec.SignerName, name, true))
	}
	if name := bundle.Name; name != "" {
		metadata.Child("name").InvalidFor(name, bundleNameProblems(bundle.Spec.SignerName, name, false))
	}
}

func bundleNameProblems(signer, name string, prefix bool) []string {
	if signer == "" {
		if strings.Contains(name, ":") {
			return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
		}
		return apivalidation.NameIsDNSSubdomain(name, prefix)
	}
	begin := strings.ReplaceAll(signer, "/", ":") + ":"
	rest, ok := strings.CutPrefix(name, begin)
	if !ok {
		return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signer, begin)}
	}
	return apivalidation.NameIsDNSSubdomain(rest, prefix)
}

// validateAnchors requires that text contains CA certificates and no duplicates.
func validateAnchors(f validation.Field, text string) {
	if len(text) > maxBundle {
		f.TooLong(maxBundle)
		return
	}
	before, n := f.ErrorCount(), 0
	indices := map[string][]int{} // indexes of the certificates with the same contents
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		if problem := anchorProblem(block); problem != "" {
			f.Invalid(hidden, fmt.Sprintf("entry %d %s", n, problem))
		} else {
			indices[string(block.Bytes)] = append(indices[string(block.Bytes)], n)
		}
		n++
	}
	if f.ErrorCount() > before {
		return
	}
	if n == 0 {
		f.Invalid(hidden, "at least one trust anchor must be provided")
	}
	for _, same := range indices {
		if len(same) > 1 {
			f.Invalid(hidden, fmt.Sprintf("duplicate trust anchor (indices %v)", same))
		}
	}
}

func anchorProblem(block *pem.Block) string {
	if block.Type != certificateBlock {
		return "has bad block type: " + block.Type
	}
	if len(block.Headers) > 0 {
		return "has PEM block headers"
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "does not parse as X.509"
	case !certificate.IsCA:
		return "does not have the CA bit set"
	case !certificate.BasicConstraintsValid:
		return "has invalid basic constraints"
	}
	return ""
}
