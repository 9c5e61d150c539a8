package filters

import (
	"context"
	"errors"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/filters/audit"
	"mainstay.dev/mainstay/internal/request"
)

// Values of audit events for server code, which has no connection: the address is that of
// kube-apiserver's loopback requests.
const (
	internalAgent  = "mainstay/internal"
	internalSource = "::1"
)

// Internal is an audited request of server code. The methods of a nil *Internal do nothing.
type Internal struct {
	audited  *audited
	received bool
}

// Internal evaluates the policy for a request in a context of package loopback, and returns nil if
// it is not recorded. reason returns the reason of the authorization.
func (config *AuditConfig) Internal(ctx context.Context, reason func() string) *Internal {
	request.SetAudit(ctx, &request.Audit{})
	request.SetAuditID(ctx, uuid.NewString())
	a := config.decide(ctx)
	if a == nil {
		return nil
	}
	a.response = &response{}
	a.event.RequestURI, a.event.SourceIPs, a.event.UserAgent = request.InfoFrom(ctx).Path, []string{internalSource}, internalAgent
	annotate(ctx, "allow", reason())
	return &Internal{audited: a}
}

// Received records, once, that the request is made. An error means that it must not be.
func (i *Internal) Received() error {
	if i == nil || i.received {
		return nil
	}
	i.received = true
	if !i.audited.process(audit.StageRequestReceived) {
		i.audited.config.Sink.Metrics().Rejected()
		return apierrors.NewInternalError(errors.New("failed to store audit event"))
	}
	return nil
}

// Complete records the result of the request, with a status that has a code, if Received was
// called.
func (i *Internal) Complete(status *metav1.Status) {
	if i == nil || !i.received {
		return
	}
	i.audited.response.started.Store(status.Code)
	if status.Status == metav1.StatusFailure {
		request.AuditFrom(i.audited.ctx).SetResponseStatus(status)
	}
	i.audited.cleanup(i.audited.response, nil)
}
