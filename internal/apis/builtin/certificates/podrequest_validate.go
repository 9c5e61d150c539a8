package certificates

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"mainstay.dev/mainstay/internal/apis/builtin/validation"
	"mainstay.dev/mainstay/internal/rest/names"
)

// Limits for pod certificate requests.
const (
	maxUID = 128
	// Lifetimes, in seconds. Signers of Kubernetes issue certificates for at most one day.
	minPodExpiration        = 3600
	maxPodExpiration        = 91 * 24 * 60 * 60
	maxKubernetesExpiration = maxExpiration
	maxStubRequest          = 10 << 10
)

// validatePodRequest validates a new request. On update, it requires that the spec does not change.
func validatePodRequest(f validation.Field, r, old *certificatesv1.PodCertificateRequest) {
	f, spec := f.Child("spec"), &r.Spec
	if old != nil {
		validation.Immutable(f, *spec, old.Spec)
		return
	}
	f.Child("signerName").SignerName(spec.SignerName)
	validateUserAnnotations(f.Child("unverifiedUserAnnotations"), spec.UnverifiedUserAnnotations)
	f.Child("podName").DNSSubdomain(spec.PodName)
	validateUID(f.Child("podUID"), spec.PodUID)
	f.Child("serviceAccountName").DNSSubdomain(spec.ServiceAccountName)
	validateUID(f.Child("serviceAccountUID"), spec.ServiceAccountUID)
	f.Child("nodeName").DNSSubdomain(string(spec.NodeName))
	validateUID(f.Child("nodeUID"), spec.NodeUID)
	if spec.MaxExpirationSeconds == nil {
		f.Child("maxExpirationSeconds").Required("must be set")
		return
	}
	validatePodExpiration(f.Child("maxExpirationSeconds"), spec)
	validateStub(f, spec.StubPKCS10Request)
}

func validateUID(f validation.Field, uid types.UID) {
	if uid == "" {
		f.Invalid(uid, "must not be empty")
	}
	if len(uid) > maxUID {
		f.TooLong(maxUID)
	}
}

func validateUserAnnotations(f validation.Field, annotations map[string]string) {
	size := 0
	for key, value := range annotations {
		size += len(key) + len(value)
		if !names.IsQualified(key) || !strings.Contains(key, "/") {
			f.Add(utilvalidation.IsDomainPrefixedKey(f.Path(), key)...)
		}
	}
	if size > apivalidation.TotalAnnotationSizeLimitB {
		f.TooLong(apivalidation.TotalAnnotationSizeLimitB)
	}
}

func validatePodExpiration(f validation.Field, spec *certificatesv1.PodCertificateRequestSpec) {
	most := int32(maxPodExpiration)
	host, _, _ := strings.Cut(spec.SignerName, "/")
	if host == "kubernetes.io" || strings.HasSuffix(host, ".kubernetes.io") {
		most = maxKubernetesExpiration
	}
	if seconds := *spec.MaxExpirationSeconds; seconds < minPodExpiration || seconds > most {
		f.Invalid(seconds, fmt.Sprintf("must be in the range [%d, %d]", minPodExpiration, most))
	}
}

// validateStub requires a signed PKCS #10 request whose key has a permitted type.
func validateStub(f validation.Field, stub []byte) {
	omitted, at := field.OmitValueType{}, f.Child("stubPKCS10Request")
	if len(stub) == 0 { // as in kube-apiserver, the message also mentions the fields of older versions
		f.Invalid(omitted, "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set")
		return
	}
	if len(stub) > maxStubRequest {
		at.TooLong(maxStubRequest)
		return
	}
	request, err := x509.ParseCertificateRequest(stub)
	if err != nil {
		at.Invalid(omitted, "must be a valid PKCS#10 CSR")
		return
	}
	validatePodKey(at, request.PublicKey)
	if err := request.CheckSignature(); err != nil {
		at.Invalid(omitted, "must be a valid PKCS#10 CSR")
	}
}

func validatePodKey(f validation.Field, key any) {
	switch key := key.(type) {
	case ed25519.PublicKey:
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() && key.Curve != elliptic.P384() && key.Curve != elliptic.P521() {
			f.Invalid("curve "+key.Curve.Params().Name, "elliptic public keys must use curve P256 or P384")
		}
	case *rsa.PublicKey:
		if bits := key.Size() * 8; bits != 3072 && bits != 4096 {
			f.Invalid(fmt.Sprintf("%d-bit modulus", bits), "RSA keys must have modulus size 3072 or 4096")
		}
	default:
		f.Invalid(field.OmitValueType{}, "unknown public key type; supported types are Ed25519, ECDSA, and RSA")
	}
}
