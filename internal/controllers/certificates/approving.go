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

// approve approves the request of a kubelet for its client certificate, if its user may
// have that: a node its own (selfnodeclient), or any (nodeclient), as a token does by which
// nodes join.
func (c *Controller) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientKubeletSignerName || !isPending(csr) {
		return nil
	}
	asked, err := pki.ParseRequest(csr.Spec.Request)
	if err != nil {
		return fmt.Errorf("parse the certificate signing request %s: %w", csr.Name, err)
	}
	if checkKubeletClient(asked, csr.Spec.Usages) != nil {
		return nil // a user may approve it, and its condition then contains the error
	}
	message, err := c.leave(ctx, csr, asked.Subject.CommonName == csr.Spec.Username)
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

// leave returns the reason of an approval; self reports that the kubelet requests its own
// certificate. An error retries, because permissions may be granted later.
func (c *Controller) leave(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, self bool) (string, error) {
	if self {
		if allowed, err := c.mayHave(ctx, csr, "selfnodeclient"); err != nil || allowed {
			return "Auto approving self kubelet client certificate after SubjectAccessReview.", err
		}
	}
	allowed, err := c.mayHave(ctx, csr, "nodeclient")
	if err == nil && !allowed {
		err = fmt.Errorf("%s may create neither certificatesigningrequests/nodeclient nor, for itself, selfnodeclient", csr.Spec.Username)
	}
	return "Auto approving kubelet client certificate after SubjectAccessReview.", err
}

// isPending reports whether a request is neither approved nor denied.
func isPending(csr *certificatesv1.CertificateSigningRequest) bool {
	return len(csr.Status.Certificate) == 0 && !has(csr, certificatesv1.CertificateApproved, certificatesv1.CertificateDenied)
}

// mayHave reports whether the user of a request may create a virtual subresource of requests.
func (c *Controller) mayHave(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, subresource string) (bool, error) {
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
