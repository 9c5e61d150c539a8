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
)

// plugin is the common part of both plugins.
type plugin struct {
	config *Config
	source *source
	// step is the plugin's pass in metrics, failedOpen the beginning of the audit
	// annotation of a failure that did not matter.
	step, failedOpen string
	mutates          bool
}

// Handles implements admission.Plugin.
func (*plugin) Handles(admission.Operation) bool { return true }

// candidates returns the webhooks that may match a request. Only webhooks of files apply to
// admission configuration, so a broken stored webhook can be removed.
func (p *plugin) candidates(r *admission.Request) []placed {
	index := p.source.index.Load()
	switch {
	case len(index.All()) == 0, !p.config.Reviews && match.IsReview(r):
		return nil
	case match.IsConfiguration(r):
		index = p.source.staticIndex.Load()
	}
	return index.Candidates(r)
}

// match returns the resource for which a webhook receives the request; nil if it does not match.
// The error is an API error.
func (p *plugin) match(ctx context.Context, s *match.Subject, h placed) (*rest.Resource, error) {
	shown, err := h.matcher.Match(ctx, s)
	if shown == nil || err != nil || h.conditions == nil {
		return shown, err
	}
	began := time.Now()
	matches, err := h.conditions.Match(ctx, s, shown)
	p.config.Metrics.matched(h.hook, p.mutates, s.Operation, time.Since(began), matches, err)
	if err != nil {
		return nil, apierrors.NewForbidden(s.Resource.GroupResource(), s.Name, err)
	}
	if !matches {
		return nil, nil
	}
	return shown, nil
}

// ask calls a webhook. The error is a *callError, a denial, or an API error.
func (p *plugin) ask(ctx context.Context, a *admission.Attributes, q *reviewCall) (*admissionv1.AdmissionResponse, error) {
	if err := checkDryRun(a, q.hook); err != nil {
		return nil, err
	}
	if q.broken != nil {
		return nil, q.broken
	}
	body, err := p.call(ctx, q)
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
		return nil, denied(q.hook, p.mutates, response.Result)
	}
	return response, nil
}

// checkDryRun rejects a dry run that matches a webhook with side effects.
func checkDryRun(a *admission.Attributes, h *hook) error {
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

// maxResponse bounds a response, in bytes. The largest patch that makes sense adds
// as much as the largest object has, in base64.
const maxResponse = 6 << 20

// call sends a review and returns the answer, unless the webhook is spared.
func (p *plugin) call(ctx context.Context, q *reviewCall) ([]byte, error) {
	if q.hook.broken != nil {
		return nil, &callError{q.spec.Name, fmt.Errorf("could not get REST client: %w", q.hook.broken), http.StatusInternalServerError}
	}
	began := time.Now()
	if err := q.breaker.begin(began); err != nil {
		return nil, &callError{q.spec.Name, fmt.Errorf("failed to call webhook: %w", err), http.StatusServiceUnavailable}
	}
	body, err := q.client.Call(ctx, q.review, webhook.Limits{Timeout: timeLeft(ctx, q.timeout()), Response: maxResponse})
	if err != nil && ctx.Err() != nil {
		q.breaker.abandon()
	} else {
		p.spare(q.hook, err, began)
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

// spare updates the breaker after a call, and reports changes.
func (p *plugin) spare(h *hook, err error, began time.Time) {
	open, closed := h.breaker.end(err, began, time.Now())
	switch {
	case open:
		p.config.Logger.Warn("a webhook keeps failing and is called less often", "webhook", h.spec.Name, "configuration", h.configuration, "err", err)
	case closed:
		p.config.Logger.Info("a webhook answers again", "webhook", h.spec.Name, "configuration", h.configuration)
	}
	if open || closed {
		p.config.Metrics.spared(h, p.step, open)
		p.report(h, open)
	}
}

// timeLeft returns the timeout of a webhook or, if it is shorter, the remaining time of the
// request, in whole seconds, because it is sent to the webhook.
func timeLeft(ctx context.Context, timeout time.Duration) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return timeout
	}
	left := time.Duration(math.Ceil(time.Until(deadline).Seconds())) * time.Second
	return min(timeout, max(left, time.Second))
}

// settle returns the rejection after a call of a webhook, or nil. An ignored failure is recorded as
// an audit annotation.
func (p *plugin) settle(ctx context.Context, a *admission.Attributes, h *hook, place string, took time.Duration, err error) error {
	m := p.config.Metrics
	var failed *callError
	var refused denial
	switch {
	case err == nil:
		m.asked(h, p.step, a.Operation, took, http.StatusOK, false)
		return nil
	case errors.As(err, &failed):
		ignored, canceled := h.ignoresFailures(), errors.Is(err, context.Canceled)
		m.asked(h, p.step, a.Operation, took, failed.code, !ignored)
		if ignored && !canceled {
			m.failedOpen(h, p.step)
			p.annotate(ctx, a, p.failedOpen+place, h.spec.Name)
		}
		if ignored {
			p.config.Logger.Debug("webhook failed, and is ignored", "webhook", h.spec.Name, "configuration", h.configuration, "err", err)
			return nil
		}
		if !canceled {
			m.rejected(h, p.step, a.Operation, "calling_webhook_error", failed.code)
		}
		return apierrors.NewInternalError(err)
	case errors.As(err, &refused):
		code := int(refused.ErrStatus.Code)
		m.asked(h, p.step, a.Operation, took, code, true)
		m.rejected(h, p.step, a.Operation, "no_error", code)
		return refused.StatusError
	}
	m.asked(h, p.step, a.Operation, took, 0, true)
	m.rejected(h, p.step, a.Operation, "apiserver_internal_error", 0)
	return err
}

// annotate adds an annotation to the request's audit event. That one cannot be
// added is the webhook's fault, and not the client's.
func (p *plugin) annotate(ctx context.Context, a *admission.Attributes, key, value string) {
	if err := a.Annotate(ctx, key, value); err != nil {
		p.config.Logger.Warn("an audit annotation of a webhook is lost", "key", shortened(key, 300), "err", shortened(err.Error(), 300))
	}
}

// outOfTime returns the response after the request's deadline.
func outOfTime() error {
	return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
}
