package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// maxExpiration is the default for the maximum lifetime of a pod certificate, in seconds.
const maxExpiration = 24 * 60 * 60

func defaultPodRequest(request *certificatesv1.PodCertificateRequest) {
	builtin.SetDefault(&request.Spec.MaxExpirationSeconds, maxExpiration)
}
