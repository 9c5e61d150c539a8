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

// checkClient: a client certificate has no other usages.
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

// checkKubeletClient: the client is a node.
func checkKubeletClient(asked *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !ofNodes(asked):
		return errNotOfNodes
	case len(asked.DNSNames) > 0:
		return errors.New("DNS subjectAltNames are not allowed")
	case len(asked.EmailAddresses) > 0:
		return errEmail
	case len(asked.IPAddresses) > 0:
		return errors.New("IP subjectAltNames are not allowed")
	case len(asked.URIs) > 0:
		return errURI
	case !namesNode(asked):
		return errNotNode
	}
	return checkUsages(usages, certificatesv1.UsageClientAuth)
}

// checkKubeletServing: the server is a node, at its names and addresses.
func checkKubeletServing(asked *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	switch {
	case !ofNodes(asked):
		return errNotOfNodes
	case len(asked.DNSNames) == 0 && len(asked.IPAddresses) == 0:
		return errors.New("DNS or IP subjectAltName is required")
	case len(asked.EmailAddresses) > 0:
		return errEmail
	case len(asked.URIs) > 0:
		return errURI
	}
	if err := checkUsages(usages, certificatesv1.UsageServerAuth); err != nil {
		return err
	}
	if !namesNode(asked) {
		return errNotNode
	}
	return nil
}

// Errors of both kubelet rules, with the messages of kube-controller-manager.
var (
	errNotOfNodes = errors.New("subject organization is not system:nodes")
	errNotNode    = errors.New("subject common name does not begin with system:node:")
	errEmail      = errors.New("Email subjectAltNames are not allowed") //nolint:staticcheck // the words of the condition's message
	errURI        = errors.New("URI subjectAltNames are not allowed")
)

func ofNodes(asked *x509.CertificateRequest) bool {
	return slices.Equal(asked.Subject.Organization, []string{request.GroupNodes})
}

func namesNode(asked *x509.CertificateRequest) bool {
	return strings.HasPrefix(asked.Subject.CommonName, request.NodePrefix)
}

// checkUsages: a kubelet's key signs, enciphers keys where it is of RSA, and is good for one
// purpose.
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
