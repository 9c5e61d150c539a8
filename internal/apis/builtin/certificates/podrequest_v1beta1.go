package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"

	"mainstay.dev/mainstay/internal/apis/builtin"
	"mainstay.dev/mainstay/internal/codec"
)

// podRequestV1beta1 returns the version v1beta1 of pod certificate requests. The conversion to v1 drops its
// fields pkixPublicKey and proofOfPossession, which stubPKCS10Request has replaced in v1.
func podRequestV1beta1() *codec.Version {
	gvk := certificatesv1beta1.SchemeGroupVersion.WithKind("PodCertificateRequest")
	return builtin.ConvertedVersion(gvk, defaultPodRequestV1beta1, podRequestFromV1beta1, podRequestToV1beta1)
}

func defaultPodRequestV1beta1(r *certificatesv1beta1.PodCertificateRequest) {
	builtin.SetDefault(&r.Spec.MaxExpirationSeconds, maxExpiration)
}

func podRequestFromV1beta1(in *certificatesv1beta1.PodCertificateRequest) (*certificatesv1.PodCertificateRequest, error) {
	out := &certificatesv1.PodCertificateRequest{}
	builtin.CopyMatchingFields(out, in)
	return out, nil
}

func podRequestToV1beta1(in *certificatesv1.PodCertificateRequest) (*certificatesv1beta1.PodCertificateRequest, error) {
	out := &certificatesv1beta1.PodCertificateRequest{}
	builtin.CopyMatchingFields(out, in)
	return out, nil
}
