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
	"mainstay.dev/mainstay/internal/telemetry"
)

// AuditConfig configures the audit filters. A nil *AuditConfig disables them. The fields of a
// non-nil config are required. It must not be modified after its first use. It is safe for
// concurrent use.
type AuditConfig struct {
	Rules   *audit.Rules
	Sink    *audit.Sink
	OnError ErrorWriter
}

// AuditInit returns a filter that adds an empty request.Audit to the context, so that handlers can
// record data before the user and the audit level are determined. It must run after RequestInfo.
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

// Audit returns a filter that records the stages of requests according to the policy. It must run after
// authentication and before all filters that modify or reject a request based on its user. In the mode
// blocking-strict, a request fails with 500 if its RequestReceived event cannot be stored.
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
			if !a.record(audit.StageRequestReceived) {
				config.Sink.Metrics().CountRejected()
				config.OnError(w, r, apierrors.NewInternalError(errors.New("failed to store audit event")))
				return
			}
			if request.LongRunning(r.Context()) {
				a.response.onStart = a.recordStart
			}
			a.response.addCleanup(a)
			next.ServeHTTP(a.response, r)
		})
	}
}

// AuditErrors returns an ErrorWriter that calls onError and records one event with the stage
// ResponseStarted. It is for requests that are rejected before they reach Audit. A nil config
// returns onError itself.
func (config *AuditConfig) AuditErrors(onError ErrorWriter) ErrorWriter {
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
		a.recordStart()
	}
}

// auditedRequest is a request for which audit events are recorded. The event is filled in during
// the request. An auditedRequest must not refer to the request header, because the header of a
// long-running request is released before the request ends.
type auditedRequest struct {
	config   *AuditConfig
	ctx      context.Context
	response *response
	decision audit.Decision
	event    audit.Event
}

// begin evaluates the policy and records the data of the connection. It returns nil if the policy
// excludes the request.
func (config *AuditConfig) begin(w http.ResponseWriter, r *http.Request) *auditedRequest {
	a := config.newAuditedRequest(r.Context())
	if a != nil {
		a.response = wrap(w)
		a.event.RequestURI, a.event.SourceIPs, a.event.UserAgent = request.PathPrefix(r.Context())+r.URL.RequestURI(), sourceIPs(r), auditedUserAgent(r)
	}
	return a
}

// newAuditedRequest evaluates the policy and fills in the event from ctx. It returns nil if the
// policy excludes the request.
func (config *AuditConfig) newAuditedRequest(ctx context.Context) *auditedRequest {
	info := request.InfoFrom(ctx)
	attributes := authorizer.Attributes{User: request.UserFrom(ctx), Verb: info.Verb, Path: info.Path, ResourceRequest: info.IsResource}
	if info.IsResource {
		attributes.APIGroup, attributes.APIVersion, attributes.Namespace = info.Group, info.Version, info.Namespace
		attributes.Resource, attributes.Subresource, attributes.Name = info.Resource, info.Subresource, info.Name
	}
	decision := config.Rules.Decide(&attributes)
	config.Sink.Metrics().CountRequest(decision.Level)
	if decision.Level == audit.LevelNone {
		request.SetAudit(ctx, nil)
		return nil
	}
	record := request.AuditFrom(ctx)
	record.RequestBody, record.ResponseBody = decision.Level.IncludesRequestBody(), decision.Level.IncludesResponseBody()
	record.OmitManagedFields = decision.OmitManagedFields
	a := &auditedRequest{config: config, ctx: ctx, decision: decision}
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

// maxSourceIPs is the maximum number of addresses in an event. Clients control the length of the
// list.
const maxSourceIPs = 64

// sourceIPs returns the client addresses in the request header, followed by the address of the
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

// record records a stage. It returns false if the request must be rejected because the event could
// not be stored.
func (a *auditedRequest) record(stage audit.Stage) bool {
	if !a.decision.Records(stage) {
		return true
	}
	e := &a.event
	e.Stage, e.StageTimestamp = stage, e.RequestReceivedTimestamp
	if stage == audit.StageRequestReceived {
		e.Annotations = request.AnnotationsFrom(a.ctx)
		return a.config.Sink.Process(e)
	}
	e.StageTimestamp = metav1.NewMicroTime(time.Now())
	if stage == audit.StageResponseComplete || stage == audit.StagePanic {
		a.annotateLatencies()
	}
	e.Annotations = request.AnnotationsFrom(a.ctx)
	a.addResponseData() // may add an annotation to the event
	return a.config.Sink.Process(e)
}

// annotateLatencies adds the durations of the stages of a slow request, as kube-apiserver does. A request with
// too many annotations has no durations.
func (a *auditedRequest) annotateLatencies() {
	const prefix = "apiserver.latency.k8s.io/"
	total := a.event.StageTimestamp.Sub(a.event.RequestReceivedTimestamp.Time)
	if total <= telemetry.SlowRequestThreshold {
		return
	}
	for stage, took := range request.Latencies(a.ctx) {
		_ = request.Annotate(a.ctx, prefix+stage, took.String())
	}
	_ = request.Annotate(a.ctx, prefix+"total", total.String())
}

// addResponseData copies the data that the filters and the handler have recorded into the event.
func (a *auditedRequest) addResponseData() {
	e, recorded := &a.event, request.AuditFrom(a.ctx).Recorded()
	if i := request.ImpersonationFrom(a.ctx); i != nil {
		user := auditedUser(i.User)
		e.ImpersonatedUser = &user
		if i.Constraint != "" {
			e.AuthenticationMetadata = &audit.AuthenticationMetadata{ImpersonationConstraint: i.Constraint}
		}
	}
	if object := recorded.Object; e.ObjectRef != nil {
		setIfEmpty(&e.ObjectRef.Namespace, object.Namespace)
		setIfEmpty(&e.ObjectRef.Name, object.Name)
		setIfEmpty(&e.ObjectRef.UID, object.UID)
		setIfEmpty(&e.ObjectRef.ResourceVersion, object.ResourceVersion)
	}
	e.RequestObject, e.ResponseObject = audit.Body(recorded.RequestBody), audit.Body(recorded.ResponseBody)
	if recorded.Truncated {
		e.MarkTruncated()
	}
	if e.ResponseStatus == nil {
		e.ResponseStatus = a.status(recorded.Status)
	}
}

func setIfEmpty(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// status returns the status of the response. The code is the status code of the response header. The other
// fields are copied from sent, the Status in the response body, which may be nil.
func (a *auditedRequest) status(sent *metav1.Status) *metav1.Status {
	status := &metav1.Status{Code: a.response.atomicStatus.Load()}
	if sent != nil {
		status.Status, status.Message, status.Reason, status.Details = sent.Status, sent.Message, sent.Reason, sent.Details
	}
	switch {
	case status.Code != 0:
	case errors.Is(a.ctx.Err(), context.DeadlineExceeded):
		status.Code = http.StatusGatewayTimeout // Deadline sends this code after the handler returns
	default:
		status.Code, status.Status, status.Message = http.StatusOK, metav1.StatusSuccess, "Connection closed early"
	}
	return status
}

func (a *auditedRequest) recordStart() { a.record(audit.StageResponseStarted) }

// cleanup implements cleaner. It records that the handler has ended or panicked.
// http.ErrAbortHandler is not recorded as a panic, because handlers use it to abort a response, for
// example after a disconnect.
func (a *auditedRequest) cleanup(_ *response, panicked any) {
	if panicked != nil && panicked != http.ErrAbortHandler {
		a.event.ResponseStatus = &metav1.Status{
			Code: http.StatusInternalServerError, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
			Message: fmt.Sprintf("APIServer panic'd: %v", panicked),
		}
		a.record(audit.StagePanic)
		return
	}
	if a.response.onStart != nil && a.response.atomicStatus.Load() == 0 {
		a.recordStart() // the handler sent no response
	}
	a.record(audit.StageResponseComplete)
}
