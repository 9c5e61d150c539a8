package certificates

import (
	certificatesv1 "k8s.io/api/certificates/v1"

	"mainstay.dev/mainstay/internal/apis/builtin"
)

// maxExpiration is for how many seconds a certificate of a pod is asked for at
// most: a day.
const maxExpiration = 24 * 60 * 60

func defaultPodRequest(request *certificatesv1.PodCertificateRequest) {
	builtin.Fill(&request.Spec.MaxExpirationSeconds, maxExpiration)
}
