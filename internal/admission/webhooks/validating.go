package webhooks

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/match"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// Validating is the plugin ValidatingAdmissionWebhook. It calls validating webhooks concurrently. The first
// rejection cancels the other calls and is returned. Validating is safe for concurrent use.
type Validating struct{ plugin }

var _ admission.Validator = (*Validating)(nil)

// NewValidating returns the plugin, which has no webhook configurations yet.
func NewValidating(config Config) *Validating {
	return &Validating{plugin{
		config: &config, source: newSource(&config), step: "validating", failOpenAnnotation: "failed-open.validating.webhook.admission.k8s.io/",
	}}
}

// Name implements admission.Plugin.
func (*Validating) Name() string { return "ValidatingAdmissionWebhook" }

// Objects returns a reflector consumer that updates the plugin when configurations change.
func (p *Validating) Objects() *reflector.Objects[*admissionregistrationv1.ValidatingWebhookConfiguration] {
	return configurationObjects(p.source, "validating webhook configurations", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) []admissionregistrationv1.MutatingWebhook {
		return asMutating(c.Webhooks)
	})
}

// SetStatic replaces the configurations that were read from files. All objects must be
// *ValidatingWebhookConfiguration. It retains the objects. It is safe to call while requests are being
// admitted.
func (p *Validating) SetStatic(configurations []codec.Object) {
	webhooks := map[string][]admissionregistrationv1.MutatingWebhook{}
	for _, c := range configurations {
		webhooks[c.GetName()] = asMutating(c.(*admissionregistrationv1.ValidatingWebhookConfiguration).Webhooks)
	}
	p.source.setStatic(webhooks)
}

// Validate implements admission.Validator.
func (p *Validating) Validate(ctx context.Context, a *admission.Attributes) error {
	if c, ok := a.Object.(*admissionregistrationv1.ValidatingWebhookConfiguration); ok {
		p.warnSelfDependency(ctx, asMutating(c.Webhooks))
	}
	calls, err := p.newCalls(ctx, a)
	switch {
	case err != nil || len(calls) == 0:
		return err
	case ctx.Err() != nil:
		return timeoutError()
	}
	began := time.Now()
	defer func() { request.AddLatency(ctx, request.StageValidatingWebhooks, time.Since(began)) }()
	if len(calls) == 1 {
		return p.validateWith(ctx, a, calls[0], 0)
	}
	return p.validateWithAll(ctx, a, calls)
}

// validateWithAll calls all webhooks concurrently. The first rejection cancels the other calls and is returned.
func (p *Validating) validateWithAll(ctx context.Context, a *admission.Attributes, calls []*reviewCall) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, q := range calls {
		group.Go(func() error { return p.validateWith(ctx, a, q, i) })
	}
	return group.Wait()
}

// newCalls returns the reviews for the webhooks that match a request.
func (p *Validating) newCalls(ctx context.Context, a *admission.Attributes) ([]*reviewCall, error) {
	candidates := p.candidates(&a.Request)
	if len(candidates) == 0 {
		return nil, nil
	}
	var all []*reviewCall
	subject := &match.Subject{Attributes: a, Namespaces: p.config.Namespaces}
	q := &reviewBuilder{a: a}
	for _, h := range candidates {
		matched, err := p.match(ctx, subject, h)
		if err != nil {
			return nil, err
		}
		if matched == nil {
			continue
		}
		one, err := q.newCall(ctx, h, matched)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		all = append(all, one)
	}
	return all, nil
}

// validateWith calls the i-th webhook of a request and returns its rejection. It recovers panics, because
// it may run in its own goroutine.
func (p *Validating) validateWith(ctx context.Context, a *admission.Attributes, q *reviewCall, i int) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = apierrors.NewInternalError(fmt.Errorf("ValidatingAdmissionWebhook/%v panicked: %v", q.spec.Name, reason))
		}
	}()
	decision := q.startDecision(a)
	began := time.Now()
	_, err = p.callWebhook(ctx, a, q)
	decision.End(err)
	return p.handleResult(ctx, a, q.configuredWebhook, fmt.Sprintf("round_0_index_%d", i), time.Since(began), err)
}
