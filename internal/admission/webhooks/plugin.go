package webhooks

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/match"
	"mainstay.dev/mainstay/internal/egress/webhook"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
	"mainstay.dev/mainstay/internal/telemetry/tracing"
)

// plugin is the common part of Mutating and Validating.
type plugin struct {
	config *Config
	source *source
	// step is the value of the metric label "type". failOpenAnnotation is the prefix of the audit annotation
	// that records an ignored failure.
	step, failOpenAnnotation string
	mutates                  bool
}

// Handles implements admission.Plugin.
func (*plugin) Handles(admission.Operation) bool { return true }

// candidates returns the webhooks that may match a request. For admission configuration, it returns only
// webhooks from files, so that a broken stored webhook can be removed.
func (p *plugin) candidates(r *admission.Request) []indexedWebhook {
	index := p.source.index.Load()
	switch {
	case len(index.All()) == 0, !p.config.InterceptReviews && match.IsReview(r):
		return nil
	case match.IsConfiguration(r):
		index = p.source.staticIndex.Load()
	}
	return index.Candidates(r)
}

// match returns the resource in whose version a webhook receives the request, or nil if the webhook does not
// match the request. The error is an API error.
func (p *plugin) match(ctx context.Context, s *match.Subject, h indexedWebhook) (*rest.Resource, error) {
	matched, err := h.matcher.Match(ctx, s)
	if matched == nil || err != nil || h.conditions == nil {
		return matched, err
	}
	began := time.Now()
	matches, err := h.conditions.Match(ctx, s, matched)
	p.config.Metrics.recordMatch(h.configuredWebhook, p.mutates, s.Operation, time.Since(began), matches, err)
	if err != nil {
		return nil, apierrors.NewForbidden(s.Resource.GroupResource(), s.Name, err)
	}
	if !matches {
		return nil, nil
	}
	return matched, nil
}

// callWebhook calls a webhook. The error is a *callError, a denial, or an API error.
func (p *plugin) callWebhook(ctx context.Context, a *admission.Attributes, q *reviewCall) (*admissionv1.AdmissionResponse, error) {
	if err := checkDryRun(a, q.configuredWebhook); err != nil {
		return nil, err
	}
	if q.buildErr != nil {
		return nil, q.buildErr
	}
	body, err := p.sendReview(ctx, q)
	if err != nil {
		return nil, err
	}
	response, failed := q.readResponse(body, p.mutates)
	if failed != nil {
		return nil, failed
	}
	for key, value := range response.AuditAnnotations {
		p.annotate(ctx, a, q.spec.Name+"/"+key, value)
	}
	for _, text := range response.Warnings {
		request.AddWarning(ctx, text)
	}
	if !response.Allowed {
		return nil, newDenial(q.configuredWebhook, p.mutates, response.Result)
	}
	return response, nil
}

// checkDryRun returns an error if the request is a dry run and the webhook has side effects on dry runs.
func checkDryRun(a *admission.Attributes, h *configuredWebhook) error {
	if !a.DryRun {
		return nil
	}
	switch effects := h.spec.SideEffects; {
	case effects == nil:
		return &callError{h.spec.Name, errors.New("Webhook SideEffects is nil"), http.StatusBadRequest}
	case *effects == admissionregistrationv1.SideEffectClassNone, *effects == admissionregistrationv1.SideEffectClassNoneOnDryRun:
		return nil
	}
	return apierrors.NewBadRequest(fmt.Sprintf("admission webhook %q does not support dry run", h.spec.Name))
}

// maxResponse is the maximum size of a response, in bytes. It is sufficient for a base64-encoded patch that
// adds an object of the maximum size.
const maxResponse = 6 << 20

// sendReview sends a review and returns the body of the response. It returns an error without calling the
// webhook if the circuit breaker does not permit a call.
func (p *plugin) sendReview(ctx context.Context, q *reviewCall) (body []byte, err error) {
	if q.configuredWebhook.clientErr != nil {
		return nil, &callError{q.spec.Name, fmt.Errorf("could not get REST client: %w", q.configuredWebhook.clientErr), http.StatusInternalServerError}
	}
	ctx, span := tracing.StartNamed(ctx, "Call webhook", q.spec.Name)
	defer func() { span.End(err) }()
	began := time.Now()
	probe, err := q.breaker.beginCall(began)
	if err != nil {
		return nil, &callError{q.spec.Name, fmt.Errorf("failed to call webhook: %w", err), http.StatusServiceUnavailable}
	}
	body, err = q.client.Call(ctx, q.review, webhook.Limits{Timeout: remainingTimeout(ctx, q.timeout()), MaxResponse: maxResponse})
	if err != nil && ctx.Err() != nil {
		q.breaker.abandonCall(probe)
	} else {
		p.updateBreaker(q.configuredWebhook, probe, err, began)
	}
	if err == nil {
		return body, nil
	}
	code := http.StatusServiceUnavailable
	var status *webhook.StatusError
	if errors.As(err, &status) {
		code = status.Code
	}
	return nil, &callError{q.spec.Name, fmt.Errorf("failed to call webhook: %w", err), code}
}

// updateBreaker records the result of a call in the circuit breaker, and reports when the circuit opens or
// closes.
func (p *plugin) updateBreaker(h *configuredWebhook, probe bool, err error, began time.Time) {
	open, closed := h.breaker.endCall(probe, err, began, time.Now())
	switch {
	case open:
		p.config.Logger.Warn("webhook failed repeatedly, calling it less often", "webhook", h.spec.Name, "configuration", h.configuration, "err", err)
	case closed:
		p.config.Logger.Info("webhook recovered", "webhook", h.spec.Name, "configuration", h.configuration)
	}
	if open || closed {
		p.config.Metrics.setCircuitOpen(h, p.step, open)
		p.report(h, open)
	}
}

// remainingTimeout returns the timeout of a webhook or the time that remains for the request, whichever is
// shorter. The remaining time is rounded up to whole seconds, because the timeout is sent to the webhook in
// seconds.
func remainingTimeout(ctx context.Context, timeout time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return timeout
	}
	left := time.Duration(math.Ceil(time.Until(deadline).Seconds())) * time.Second
	return min(timeout, max(left, time.Second))
}

// handleResult records the result of a call in metrics. It returns the rejection of the request, or nil. If a
// failure is ignored, it adds an audit annotation.
func (p *plugin) handleResult(ctx context.Context, a *admission.Attributes, h *configuredWebhook, suffix string, took time.Duration, err error) error {
	m := p.config.Metrics
	var failed *callError
	var refused denial
	switch {
	case err == nil:
		m.recordCall(h, p.step, a.Operation, took, http.StatusOK, false)
		return nil
	case errors.As(err, &failed):
		ignored, canceled := h.ignoresFailures(), errors.Is(err, context.Canceled)
		m.recordCall(h, p.step, a.Operation, took, failed.code, !ignored)
		if ignored && !canceled {
			m.recordFailOpen(h, p.step)
			p.annotate(ctx, a, p.failOpenAnnotation+suffix, h.spec.Name)
		}
		if ignored {
			p.config.Logger.Debug("ignored webhook failure", "webhook", h.spec.Name, "configuration", h.configuration, "err", err)
			return nil
		}
		if !canceled {
			m.recordRejection(h, p.step, a.Operation, "calling_webhook_error", failed.code)
		}
		return apierrors.NewInternalError(err)
	case errors.As(err, &refused):
		code := int(refused.ErrStatus.Code)
		m.recordCall(h, p.step, a.Operation, took, code, true)
		m.recordRejection(h, p.step, a.Operation, "no_error", code)
		return refused.StatusError
	}
	m.recordCall(h, p.step, a.Operation, took, 0, true)
	m.recordRejection(h, p.step, a.Operation, "apiserver_internal_error", 0)
	return err
}

// annotate adds an annotation to the request's audit event. It only logs errors, because an invalid annotation
// from a webhook must not cause the client's request to be rejected.
func (p *plugin) annotate(ctx context.Context, a *admission.Attributes, key, value string) {
	if err := a.Annotate(ctx, key, value); err != nil {
		p.config.Logger.Warn("add the audit annotation of a webhook", "key", truncate(key, 300), "err", truncate(err.Error(), 300))
	}
}

// timeoutError returns the API error for a request whose deadline has passed.
func timeoutError() error {
	return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
}
