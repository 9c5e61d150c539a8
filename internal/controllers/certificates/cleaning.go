package certificates

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"mainstay.dev/mainstay/internal/controllers/work"
)

// completedRetention and pendingRetention are the retention times of completed and of pending requests.
const (
	completedRetention = time.Hour
	pendingRetention   = 24 * time.Hour
)

// clean deletes an expired request, or requeues the key at the expiration time.
func (c *Controller) clean(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	ends := expiry(csr)
	if ends.IsZero() {
		return nil
	}
	if err := work.RequeueUntil(ctx, ends); err != nil {
		return err
	}
	err := c.requests.Delete(ctx, types.NamespacedName{Name: csr.Name}, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &csr.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the expired certificate signing request %s: %w", csr.Name, err)
	}
	return nil
}

// expiry returns the time at which a request is to be deleted, or the zero time if this is not known yet.
func expiry(csr *certificatesv1.CertificateSigningRequest) time.Time {
	if len(csr.Status.Conditions) == 0 {
		return addUnlessZero(csr.CreationTimestamp, pendingRetention)
	}
	var first time.Time
	for i := range csr.Status.Conditions {
		ends := expiryByCondition(csr, &csr.Status.Conditions[i])
		if !ends.IsZero() && (first.IsZero() || ends.Before(first)) {
			first = ends
		}
	}
	return first
}

func expiryByCondition(csr *certificatesv1.CertificateSigningRequest, c *certificatesv1.CertificateSigningRequestCondition) time.Time {
	switch c.Type {
	case certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
		return addUnlessZero(c.LastUpdateTime, completedRetention)
	case certificatesv1.CertificateApproved:
		if len(csr.Status.Certificate) == 0 {
			return addUnlessZero(c.LastUpdateTime, pendingRetention)
		}
		ends := addUnlessZero(c.LastUpdateTime, completedRetention)
		if expires := notAfter(csr.Status.Certificate); !expires.IsZero() && (ends.IsZero() || expires.Before(ends)) {
			return expires
		}
		return ends
	}
	return time.Time{}
}

// addUnlessZero returns t+d, or the zero time if t is zero.
func addUnlessZero(t metav1.Time, d time.Duration) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.Add(d)
}

// notAfter returns the expiration time of the first certificate in a PEM chain, or the zero time if the
// certificate is invalid.
func notAfter(chain []byte) time.Time {
	block, _ := pem.Decode(chain)
	if block == nil {
		return time.Time{}
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}
	}
	return certificate.NotAfter
}
