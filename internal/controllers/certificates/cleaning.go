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

// Retention times of completed and of pending requests.
const (
	endedExpiration   = time.Hour
	pendingExpiration = 24 * time.Hour
)

// clean deletes an expired request, or schedules its expiration.
func (c *Controller) clean(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
	ends := expiry(csr)
	if ends.IsZero() {
		return nil
	}
	if err := work.Due(ctx, ends); err != nil {
		return err
	}
	err := c.requests.Delete(ctx, types.NamespacedName{Name: csr.Name}, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &csr.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete the certificate signing request %s, which is over: %w", csr.Name, err)
	}
	return nil
}

// expiry returns when a request is to be deleted; zero: that is not known.
func expiry(csr *certificatesv1.CertificateSigningRequest) time.Time {
	if len(csr.Status.Conditions) == 0 {
		return after(csr.CreationTimestamp, pendingExpiration)
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
		return after(c.LastUpdateTime, endedExpiration)
	case certificatesv1.CertificateApproved:
		if len(csr.Status.Certificate) == 0 {
			return after(c.LastUpdateTime, pendingExpiration)
		}
		ends := after(c.LastUpdateTime, endedExpiration)
		if expires := notAfter(csr.Status.Certificate); !expires.IsZero() && (ends.IsZero() || expires.Before(ends)) {
			return expires
		}
		return ends
	}
	return time.Time{}
}

// after returns a time that is a while after another one; zero: that is not known.
func after(t metav1.Time, while time.Duration) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.Add(while)
}

// notAfter returns when the first certificate of a chain expires; zero: it cannot be read.
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
