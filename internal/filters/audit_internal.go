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

// The user agent and source address in audit events of internal requests, which have no client connection.
// The address is the same as for kube-apiserver's loopback requests.
const (
	internalAgent  = "mainstay/internal"
	internalSource = "::1"
)

// InternalRequest is an audited request of server code. The methods of a nil *InternalRequest do
// nothing. It is not safe for concurrent use.
type InternalRequest struct {
	audited  *auditedRequest
	received bool
}

// NewInternalRequest evaluates the policy for a request whose context was created by package
// loopback. It returns nil if the policy excludes the request. reason returns the authorization
// reason and is called only for recorded requests.
func (config *AuditConfig) NewInternalRequest(ctx context.Context, reason func() string) *InternalRequest {
	request.SetAudit(ctx, &request.Audit{})
	request.SetAuditID(ctx, uuid.NewString())
	a := config.newAuditedRequest(ctx)
	if a == nil {
		return nil
	}
	a.response = &response{}
	a.event.RequestURI, a.event.SourceIPs, a.event.UserAgent = request.PathPrefix(ctx)+request.InfoFrom(ctx).Path, []string{internalSource}, internalAgent
	annotateDecision(ctx, "allow", reason())
	return &InternalRequest{audited: a}
}

// RecordReceived records the stage RequestReceived on its first call. It returns an API error (500)
// if the request must be rejected because the event could not be stored.
func (i *InternalRequest) RecordReceived() error {
	if i == nil || i.received {
		return nil
	}
	i.received = true
	if !i.audited.record(audit.StageRequestReceived) {
		i.audited.config.Sink.Metrics().CountRejected()
		return apierrors.NewInternalError(errors.New("failed to store audit event"))
	}
	return nil
}

// Complete records the result of the request. status.Code must be set. Complete does nothing if
// RecordReceived was not called.
func (i *InternalRequest) Complete(status *metav1.Status) {
	if i == nil || !i.received {
		return
	}
	i.audited.response.atomicStatus.Store(status.Code)
	if status.Status == metav1.StatusFailure {
		request.AuditFrom(i.audited.ctx).SetResponseStatus(status)
	}
	i.audited.cleanup(i.audited.response, nil)
}
