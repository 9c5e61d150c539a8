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
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// Validating is ValidatingAdmissionWebhook: it calls validating webhooks concurrently. The first
// rejection is the response and cancels the other calls.
type Validating struct{ plugin }

var _ admission.Validator = (*Validating)(nil)

// NewValidating returns the plugin without configurations.
func NewValidating(config Config) *Validating {
	return &Validating{plugin{
		config: &config, source: newSource(&config), step: "validating", failedOpen: "failed-open.validating.webhook.admission.k8s.io/",
	}}
}

// Name implements admission.Plugin.
func (*Validating) Name() string { return "ValidatingAdmissionWebhook" }

// Objects keep the plugin up to date with the configurations.
func (p *Validating) Objects() *reflector.Objects[*admissionregistrationv1.ValidatingWebhookConfiguration] {
	return objects(p.source, "validating webhook configurations", func(c *admissionregistrationv1.ValidatingWebhookConfiguration) []admissionregistrationv1.MutatingWebhook {
		return asMutating(c.Webhooks)
	})
}

// SetStatic replaces the configurations of files.
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
		p.warnOfItself(ctx, asMutating(c.Webhooks))
	}
	calls, err := p.calls(ctx, a)
	switch {
	case err != nil || len(calls) == 0:
		return err
	case ctx.Err() != nil:
		return outOfTime()
	case len(calls) == 1:
		return p.judge(ctx, a, calls[0], 0)
	}
	return p.judgeAll(ctx, a, calls)
}

// judgeAll calls all webhooks concurrently.
func (p *Validating) judgeAll(ctx context.Context, a *admission.Attributes, calls []*reviewCall) error {
	group, ctx := errgroup.WithContext(ctx)
	for i, q := range calls {
		group.Go(func() error { return p.judge(ctx, a, q, i) })
	}
	return group.Wait()
}

// calls returns the reviews for the webhooks that a request concerns.
func (p *Validating) calls(ctx context.Context, a *admission.Attributes) ([]*reviewCall, error) {
	candidates := p.candidates(&a.Request)
	if len(candidates) == 0 {
		return nil, nil
	}
	var all []*reviewCall
	subject := &match.Subject{Attributes: a, Namespaces: p.config.Namespaces}
	q := &reviewBuilder{a: a}
	for _, h := range candidates {
		shown, err := p.match(ctx, subject, h)
		if err != nil {
			return nil, err
		}
		if shown == nil {
			continue
		}
		one, err := q.call(ctx, h, shown)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		all = append(all, one)
	}
	return all, nil
}

// judge calls the i-th webhook of a request and returns its rejection. It recovers panics, because
// it may run in its own goroutine.
func (p *Validating) judge(ctx context.Context, a *admission.Attributes, q *reviewCall, i int) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = apierrors.NewInternalError(fmt.Errorf("ValidatingAdmissionWebhook/%v has panicked: %v", q.spec.Name, reason))
		}
	}()
	deciding := q.decide(a)
	began := time.Now()
	_, err = p.ask(ctx, a, q)
	deciding.End(err)
	return p.settle(ctx, a, q.hook, fmt.Sprintf("round_0_index_%d", i), time.Since(began), err)
}
