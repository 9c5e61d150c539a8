package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/admission/match"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// Beginnings of audit annotations; the place of the webhook follows.
const (
	mutationAnnotation = "mutation.webhook.admission.k8s.io/"
	patchAnnotation    = "patch.webhook.admission.k8s.io/"
)

// Mutating is MutatingAdmissionWebhook: it calls mutating webhooks sequentially.
type Mutating struct{ plugin }

var _ admission.Mutator = (*Mutating)(nil)

// NewMutating returns the plugin without configurations.
func NewMutating(config Config) *Mutating {
	return &Mutating{plugin{
		config: &config, source: newSource(&config), step: "admit", failedOpen: "failed-open." + mutationAnnotation, mutates: true,
	}}
}

// Name implements admission.Plugin.
func (*Mutating) Name() string { return "MutatingAdmissionWebhook" }

// Objects keep the plugin up to date with the configurations.
func (p *Mutating) Objects() *reflector.Objects[*admissionregistrationv1.MutatingWebhookConfiguration] {
	return objects(p.source, "mutating webhook configurations", func(c *admissionregistrationv1.MutatingWebhookConfiguration) []admissionregistrationv1.MutatingWebhook {
		return c.Webhooks
	})
}

// SetStatic replaces the configurations of files.
func (p *Mutating) SetStatic(configurations []codec.Object) {
	webhooks := map[string][]admissionregistrationv1.MutatingWebhook{}
	for _, c := range configurations {
		webhooks[c.GetName()] = c.(*admissionregistrationv1.MutatingWebhookConfiguration).Webhooks
	}
	p.source.setStatic(webhooks)
}

// rounds is the state of the first pass for the second pass, in which webhooks with a reinvocation
// policy are called again if the object changed after their call.
type rounds struct {
	// output is the object as the webhooks left it.
	output runtime.Object
	// asked are the webhooks called since the last modification; again those to call again.
	asked, again map[string]bool
}

// changed marks the called webhooks for another call.
func (r *rounds) changed() {
	for id := range r.asked {
		r.again[id] = true
	}
	clear(r.asked)
}

// Mutate implements admission.Mutator.
func (p *Mutating) Mutate(ctx context.Context, a *admission.Attributes) error {
	if c, ok := a.Object.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
		p.warnOfItself(ctx, c.Webhooks)
	}
	candidates := p.candidates(&a.Request)
	if len(candidates) == 0 {
		return nil
	}
	r, round := &rounds{asked: map[string]bool{}, again: map[string]bool{}}, 0
	if before, ok := a.State(p).(*rounds); ok && a.Reinvoked() {
		r, round = before, 1
		if len(r.asked) > 0 && !equality.Semantic.DeepEqual(r.output, a.Object) { // by other plugins
			r.changed()
		}
	}
	subject := &match.Subject{Attributes: a, Namespaces: p.config.Namespaces}
	q := &reviewBuilder{a: a}
	for _, h := range candidates {
		if err := p.askOne(ctx, subject, q, h, r, round); err != nil {
			return err
		}
	}
	if len(r.asked) > 0 && a.Object != nil && !a.Reinvoked() {
		r.output = a.Object.DeepCopyObject() // plugins after this one may write to it
	}
	a.SetState(p, r)
	return nil
}

// askOne calls a webhook if the request matches, and applies the response.
func (p *Mutating) askOne(ctx context.Context, s *match.Subject, q *reviewBuilder, h placed, r *rounds, round int) error {
	shown, err := p.match(ctx, s, h)
	if shown == nil || err != nil {
		return err
	}
	if round > 0 && !r.again[h.id] {
		return nil // no first call in the second pass, even if the request only matches now
	}
	asked, err := q.call(ctx, h, shown)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	place := fmt.Sprintf("round_%d_index_%d", round, h.index)
	deciding := h.decide(s.Attributes)
	began := time.Now()
	changed, err := p.change(ctx, s.Attributes, asked, place)
	deciding.End(err)
	p.annotateJSON(ctx, s.Attributes, mutationAnnotation+place, mutation{h.configuration, h.spec.Name, &changed, nil, ""})
	refused := p.settle(ctx, s.Attributes, h.hook, place, time.Since(began), err)
	if changed {
		s.RecordMutator(asked.whose(true))
		s.Reinvoke()
		r.changed()
	}
	if h.reinvocable() {
		r.asked[h.id] = true
	}
	if refused == nil && err != nil && ctx.Err() != nil {
		return outOfTime()
	}
	return refused
}

// mutation is the value of an audit annotation: whether a webhook has changed the
// object, or how.
type mutation struct {
	Configuration string          `json:"configuration"`
	Webhook       string          `json:"webhook"`
	Mutated       *bool           `json:"mutated,omitempty"`
	Patch         json.RawMessage `json:"patch,omitempty"`
	PatchType     string          `json:"patchType,omitempty"`
}

func (p *Mutating) annotateJSON(ctx context.Context, a *admission.Attributes, key string, value mutation) {
	text, err := json.Marshal(value)
	if err != nil {
		p.config.Logger.Warn("an audit annotation of a webhook is lost", "key", key, "err", err)
		return
	}
	p.annotate(ctx, a, key, string(text))
}
