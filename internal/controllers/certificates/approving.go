package certificates

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/host/pki"
	"mainstay.dev/mainstay/internal/request"
)

// approve approves a kubelet's request for a client certificate if the requesting user has one of two
// permissions: selfnodeclient, for the user's own certificate, or nodeclient, for the certificate of any node.
// For example, kubeadm grants nodeclient to users of bootstrap tokens.
func (c *Controller) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || !isPending(csr) {
		return nil
	}
	req, err := pki.ParseRequest(csr.Spec.Request)
	if err != nil {
		return fmt.Errorf("parse the certificate signing request %s: %w", csr.Name, err)
	}
	if checkKubeletClient(req, csr.Spec.Usages) != nil {
		return nil // if a user approves this request, the signing controller sets the Failed condition
	}
	message, err := c.authorizeApproval(ctx, csr, req.Subject.CommonName == csr.Spec.Username)
	if err != nil {
		return fmt.Errorf("approve the certificate signing request %s: %w", csr.Name, err)
	}
	return c.update(ctx, csr, "approval", func(current *certificatesv1.CertificateSigningRequest) {
		if isPending(current) {
			current.Status.Conditions = append(current.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: message,
			})
		}
	})
}

// authorizeApproval returns the message for the Approved condition. self specifies that the kubelet requests
// its own certificate. authorizeApproval returns an error if the user is not authorized; the queue then
// retries, because the permission may be granted later.
func (c *Controller) authorizeApproval(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, self bool) (string, error) {
	if self {
		if allowed, err := c.mayCreate(ctx, csr, "selfnodeclient"); err != nil || allowed {
			return "Auto approving self kubelet client certificate after SubjectAccessReview.", err
		}
	}
	allowed, err := c.mayCreate(ctx, csr, "nodeclient")
	if err == nil && !allowed {
		err = fmt.Errorf("%s may create neither certificatesigningrequests/nodeclient nor, for itself, selfnodeclient", csr.Spec.Username)
	}
	return "Auto approving kubelet client certificate after SubjectAccessReview.", err
}

// isPending reports whether a request is neither approved nor denied, and has no certificate.
func isPending(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Certificate) == 0 && !hasCondition(csr, certificatesv1.CertificateApproved, certificatesv1.CertificateDenied)
}

// mayCreate reports whether the user of a request is authorized to create a virtual subresource of
// certificatesigningrequests.
func (c *Controller) mayCreate(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, subresource string) (bool, error) {
	user := &request.User{Name: csr.Spec.Username, UID: csr.Spec.UID, Groups: csr.Spec.Groups}
	for key, values := range csr.Spec.Extra {
		if user.Extra == nil {
			user.Extra = map[string][]string{}
		}
		user.Extra[key] = values
	}
	decision, _, err := c.config.Authorizer.Authorize(ctx, &authorizer.Attributes{
		User: user, Verb: "create", ResourceRequest: true, APIGroup: certificatesv1.GroupName, APIVersion: "*",
		Resource: "certificatesigningrequests", Subresource: subresource,
	})
	if decision == authorizer.DecisionAllow {
		return true, nil
	}
	return false, err
}
