package filters

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"mainstay.dev/mainstay/internal/authorizer"
	"mainstay.dev/mainstay/internal/filters/audit"
	"mainstay.dev/mainstay/internal/request"
)

// AuditConfig configures the filters of auditing. With nil they are not there.
type AuditConfig struct {
	Rules   *audit.Rules
	Sink    *audit.Sink
	OnError ErrorWriter
}

// AuditInit allows handlers to record data for the request's audit events before the user and the
// audit level are determined.
func AuditInit(config *AuditConfig) Filter {
	return func(next http.Handler) http.Handler {
		if config == nil {
			return next
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			request.SetAudit(r.Context(), &request.Audit{})
			next.ServeHTTP(w, r)
		})
	}
}

// Audit records the stages of requests according to the policy. It runs after authentication and
// before all filters that modify or reject a request because of its user.
func Audit(config *AuditConfig) Filter {
	return func(next http.Handler) http.Handler {
		if config == nil {
			return next
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			a := config.begin(w, r)
			if a == nil {
				next.ServeHTTP(w, r)
				return
			}
			if !a.process(audit.StageRequestReceived) {
				config.Sink.Metrics().Rejected()
				config.OnError(w, r, apierrors.NewInternalError(errors.New("failed to store audit event")))
				return
			}
			if request.LongRunning(r.Context()) {
				a.response.onStart = a.started
			}
			a.response.addCleanup(a)
			next.ServeHTTP(a.response, r)
		})
	}
}

// Refusal wraps onError with one audit event of the stage ResponseStarted, for requests that are
// rejected before Audit.
func (config *AuditConfig) Refusal(onError ErrorWriter) ErrorWriter {
	if config == nil {
		return onError
	}
	return func(w http.ResponseWriter, r *http.Request, err error) {
		a := config.begin(w, r)
		if a == nil {
			onError(w, r, err)
			return
		}
		onError(a.response, r, err)
		a.started()
	}
}

// audited is a request with audit events. Its event is completed during the request. A long-running
// request retains it, so it must not refer to the header.
type audited struct {
	config   *AuditConfig
	ctx      context.Context
	response *response
	decision audit.Decision
	event    audit.Event
}

// begin evaluates the policy. It returns nil if the request is not recorded.
func (config *AuditConfig) begin(w http.ResponseWriter, r *http.Request) *audited {
	a := config.decide(r.Context())
	if a != nil {
		a.response = wrap(w)
		a.event.RequestURI, a.event.SourceIPs, a.event.UserAgent = r.URL.RequestURI(), sourceIPs(r), auditedUserAgent(r)
	}
	return a
}

// decide is begin without data of the connection.
func (config *AuditConfig) decide(ctx context.Context) *audited {
	info := request.InfoFrom(ctx)
	attributes := authorizer.Attributes{User: request.UserFrom(ctx), Verb: info.Verb, Path: info.Path, ResourceRequest: info.IsResource}
	if info.IsResource {
		attributes.APIGroup, attributes.APIVersion, attributes.Namespace = info.Group, info.Version, info.Namespace
		attributes.Resource, attributes.Subresource, attributes.Name = info.Resource, info.Subresource, info.Name
	}
	decision := config.Rules.Decide(&attributes)
	config.Sink.Metrics().Request(decision.Level)
	if decision.Level == audit.LevelNone {
		request.SetAudit(ctx, nil)
		return nil
	}
	record := request.AuditFrom(ctx)
	record.RequestBody, record.ResponseBody = decision.Level.RequestBody(), decision.Level.ResponseBody()
	record.OmitManagedFields = decision.OmitManagedFields
	a := &audited{config: config, ctx: ctx, decision: decision}
	a.event = audit.Event{
		Level: decision.Level, AuditID: request.AuditID(ctx), Verb: info.Verb,
		RequestReceivedTimestamp: metav1.NewMicroTime(request.Received(ctx)),
	}
	if attributes.User != nil {
		a.event.User = auditedUser(attributes.User)
	}
	if info.IsResource {
		a.event.ObjectRef = &audit.ObjectReference{
			Resource: info.Resource, Namespace: info.Namespace, Name: info.Name, APIGroup: info.Group, APIVersion: info.Version, Subresource: info.Subresource,
		}
	}
	return a
}

func auditedUser(user *request.User) audit.User {
	return audit.User{Username: user.Name, UID: user.UID, Groups: user.Groups, Extra: user.Extra}
}

func auditedUserAgent(r *http.Request) string {
	name := r.UserAgent()
	if len(name) > maxUserAgent {
		return name[:maxUserAgent] + "...TRUNCATED"
	}
	return strings.Clone(name)
}

// maxSourceIPs bounds the addresses of an event, which clients can list as they
// like.
const maxSourceIPs = 64

// sourceIPs returns the addresses that the request claims, followed by the address of the
// connection.
func sourceIPs(r *http.Request) []string {
	ips := utilnet.SourceIPs(r)
	if len(ips) > maxSourceIPs {
		ips = append(ips[:maxSourceIPs-1:maxSourceIPs-1], ips[len(ips)-1])
	}
	texts := make([]string, len(ips))
	for i, ip := range ips {
		texts[i] = ip.String()
	}
	return texts
}

// process records a stage. It is false where the request must not go on without.
func (a *audited) process(stage audit.Stage) bool {
	if !a.decision.Records(stage) {
		return true
	}
	e := &a.event
	e.Stage, e.StageTimestamp = stage, e.RequestReceivedTimestamp
	e.Annotations = request.AnnotationsFrom(a.ctx)
	if stage != audit.StageRequestReceived {
		e.StageTimestamp = metav1.NewMicroTime(time.Now())
		a.fillIn()
	}
	return a.config.Sink.Process(e)
}

// fillIn copies the data of the request that is now known.
func (a *audited) fillIn() {
	e, recorded := &a.event, request.AuditFrom(a.ctx).Recorded()
	if i := request.ImpersonationFrom(a.ctx); i != nil {
		user := auditedUser(i.User)
		e.ImpersonatedUser = &user
		if i.Constraint != "" {
			e.AuthenticationMetadata = &audit.AuthenticationMetadata{ImpersonationConstraint: i.Constraint}
		}
	}
	if object := recorded.Object; e.ObjectRef != nil {
		fill(&e.ObjectRef.Namespace, object.Namespace)
		fill(&e.ObjectRef.Name, object.Name)
		fill(&e.ObjectRef.UID, object.UID)
		fill(&e.ObjectRef.ResourceVersion, object.ResourceVersion)
	}
	e.RequestObject, e.ResponseObject = audit.Body(recorded.RequestBody), audit.Body(recorded.ResponseBody)
	if recorded.Truncated {
		e.Truncated()
	}
	if e.ResponseStatus == nil {
		e.ResponseStatus = a.status(recorded.Status)
	}
}

// fill sets a field that is empty.
func fill(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// status returns the status of the response: its own Status, if it is one, with the code that was
// sent.
func (a *audited) status(sent *metav1.Status) *metav1.Status {
	status := &metav1.Status{Code: a.response.started.Load()}
	if sent != nil {
		status.Status, status.Message, status.Reason, status.Details = sent.Status, sent.Message, sent.Reason, sent.Details
	}
	switch {
	case status.Code != 0:
	case errors.Is(a.ctx.Err(), context.DeadlineExceeded):
		status.Code = http.StatusGatewayTimeout // which Deadline is about to send
	default:
		status.Code, status.Status, status.Message = http.StatusOK, metav1.StatusSuccess, "Connection closed early"
	}
	return status
}

// started records the start of the response.
func (a *audited) started() { a.process(audit.StageResponseStarted) }

// cleanup implements cleaner: it records the end of the handler or its panic. An aborted response, for
// example after a disconnect, is not a panic.
func (a *audited) cleanup(_ *response, panicked any) {
	if panicked != nil && panicked != http.ErrAbortHandler {
		a.event.ResponseStatus = &metav1.Status{
			Code: http.StatusInternalServerError, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
			Message: fmt.Sprintf("APIServer panic'd: %v", panicked),
		}
		a.process(audit.StagePanic)
		return
	}
	if a.response.onStart != nil && a.response.started.Load() == 0 {
		a.started() // the handler sent no response
	}
	a.process(audit.StageResponseComplete)
}
