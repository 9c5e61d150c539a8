package certificates

import (
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// Keys of field selectors.
const (
	signerName = "spec.signerName"
	podName    = "spec.podName"
	nodeName   = "spec.nodeName"
)

// fieldLabel returns a function that accepts the given keys and metadata.name. It rejects metadata.namespace,
// even for pod certificate requests, which are namespaced.
func fieldLabel(selectable ...string) func(label, value string) (string, string, error) {
	return func(label, value string) (string, string, error) {
		if label == "metadata.name" || slices.Contains(selectable, label) {
			return label, value, nil
		}
		return "", "", fmt.Errorf("field label not supported: %s", label)
	}
}

func requestFields(r *certificatesv1.CertificateSigningRequest) fields.Set {
	return fields.Set{signerName: r.Spec.SignerName}
}

func bundleFields(b *certificatesv1.ClusterTrustBundle) fields.Set {
	return fields.Set{signerName: b.Spec.SignerName}
}

func podRequestFields(r *certificatesv1.PodCertificateRequest) fields.Set {
	return fields.Set{signerName: r.Spec.SignerName, podName: r.Spec.PodName, nodeName: string(r.Spec.NodeName)}
}
