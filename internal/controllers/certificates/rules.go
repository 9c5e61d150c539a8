package certificates

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"mainstay.dev/mainstay/internal/request"
)

// checkClient checks a request for the signer kubernetes.io/kube-apiserver-client. Client authentication is
// required, and only the usages of client certificates are allowed.
func checkClient(_ *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	for _, usage := range usages {
		switch usage {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth:
		default:
			return fmt.Errorf("invalid usage for client certificate: %s", usage)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}

// checkKubeletClient checks a request for the signer kubernetes.io/kube-apiserver-client-kubelet. The subject
// must be a node, and subject alternative names are not allowed.
func checkKubeletClient(req *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !isNodeOrganization(req):
		return errOrganization
	case len(req.DNSNames) > 0:
		return errors.New("DNS subjectAltNames are not allowed")
	case len(req.EmailAddresses) > 0:
		return errEmail
	case len(req.IPAddresses) > 0:
		return errors.New("IP subjectAltNames are not allowed")
	case len(req.URIs) > 0:
		return errURI
	case !isNodeName(req):
		return errCommonName
	}
	return checkUsages(usages, certificatesv1.UsageClientAuth)
}

// checkKubeletServing checks a request for the signer kubernetes.io/kubelet-serving. The subject must be a
// node, and DNS names or IP addresses are required.
func checkKubeletServing(req *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !isNodeOrganization(req):
		return errOrganization
	case len(req.DNSNames) == 0 && len(req.IPAddresses) == 0:
		return errors.New("DNS or IP subjectAltName is required")
	case len(req.EmailAddresses) > 0:
		return errEmail
	case len(req.URIs) > 0:
		return errURI
	}
	if err := checkUsages(usages, certificatesv1.UsageServerAuth); err != nil {
		return err
	}
	if !isNodeName(req) {
		return errCommonName
	}
	return nil
}

// The errors that both kubelet checks return, with kube-controller-manager's messages.
var (
	errOrganization = errors.New("subject organization is not system:nodes")
	errCommonName   = errors.New("subject common name does not begin with system:node:")
	errEmail        = errors.New("Email subjectAltNames are not allowed") //nolint:staticcheck // kube-controller-manager's message
	errURI          = errors.New("URI subjectAltNames are not allowed")
)

func isNodeOrganization(req *x509.CertificateRequest) bool {
	return slices.Equal(req.Subject.Organization, []string{request.GroupNodes})
}

func isNodeName(req *x509.CertificateRequest) bool {
	return strings.HasPrefix(req.Subject.CommonName, request.NodePrefix)
}

// checkUsages returns an error unless the usages are digital signature, purpose and, optionally, key
// encipherment, which only RSA keys support.
func checkUsages(usages []certificatesv1.KeyUsage, purpose certificatesv1.KeyUsage) error {
	want := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, purpose}
	slices.Sort(want)
	given := slices.Compact(slices.Sorted(slices.Values(usages)))
	withoutRSA := slices.DeleteFunc(slices.Clone(want), func(u certificatesv1.KeyUsage) bool { return u == certificatesv1.UsageKeyEncipherment })
	if !slices.Equal(given, want) && !slices.Equal(given, withoutRSA) {
		return fmt.Errorf("usages did not match %v", want)
	}
	return nil
}
