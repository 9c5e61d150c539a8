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
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/storage/reflector"
)

// The prefixes of audit annotation keys. They are followed by the round and the index of the webhook.
const (
	mutationAnnotation = "mutation.webhook.admission.k8s.io/"
	patchAnnotation    = "patch.webhook.admission.k8s.io/"
)

// Mutating is the plugin MutatingAdmissionWebhook. It calls mutating webhooks sequentially. It is safe for
// concurrent use.
type Mutating struct{ plugin }

var _ admission.Mutator = (*Mutating)(nil)

// NewMutating returns the plugin, which has no webhook configurations yet.
func NewMutating(config Config) *Mutating {
	return &Mutating{plugin{
		config: &config, source: newSource(&config), step: "admit", failOpenAnnotation: "failed-open." + mutationAnnotation, mutates: true,
	}}
}

// Name implements admission.Plugin.
func (*Mutating) Name() string { return "MutatingAdmissionWebhook" }

// Objects returns a reflector consumer that updates the plugin when configurations change.
func (p *Mutating) Objects() *reflector.Objects[*admissionregistrationv1.MutatingWebhookConfiguration] {
	return configurationObjects(p.source, "mutating webhook configurations", func(c *admissionregistrationv1.MutatingWebhookConfiguration) []admissionregistrationv1.MutatingWebhook {
		return c.Webhooks
	})
}

// SetStatic replaces the configurations that were read from files. All objects must be
// *MutatingWebhookConfiguration. It retains the objects. It is safe to call while requests are being admitted.
func (p *Mutating) SetStatic(configurations []codec.Object) {
	webhooks := map[string][]admissionregistrationv1.MutatingWebhook{}
	for _, c := range configurations {
		webhooks[c.GetName()] = c.(*admissionregistrationv1.MutatingWebhookConfiguration).Webhooks
	}
	p.source.setStatic(webhooks)
}

// reinvocationState passes state from the first pass to the second pass. The second pass calls a webhook with a
// reinvocation policy again if the object changed after its call.
type reinvocationState struct {
	// output is a copy of the object at the end of the plugin's first pass.
	output runtime.Object
	// called contains the IDs of the webhooks with a reinvocation policy that were called since the object was
	// last modified. due contains the IDs of the webhooks to call again.
	called, due map[string]bool
}

// markDue schedules another call of the webhooks in called.
func (r *reinvocationState) markDue() {
	for id := range r.called {
		r.due[id] = true
	}
	clear(r.called)
}

// Mutate implements admission.Mutator.
func (p *Mutating) Mutate(ctx context.Context, a *admission.Attributes) error {
	if c, ok := a.Object.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
		p.warnSelfDependency(ctx, c.Webhooks)
	}
	candidates := p.candidates(&a.Request)
	if len(candidates) == 0 {
		return nil
	}
	r, round := &reinvocationState{called: map[string]bool{}, due: map[string]bool{}}, 0
	if before, ok := a.State(p).(*reinvocationState); ok && a.Reinvoked() {
		r, round = before, 1
		if len(r.called) > 0 && !equality.Semantic.DeepEqual(r.output, a.Object) { // another plugin modified the object
			r.markDue()
		}
	}
	subject := &match.Subject{Attributes: a, Namespaces: p.config.Namespaces}
	q := &reviewBuilder{a: a}
	for _, h := range candidates {
		if err := p.mutateWith(ctx, subject, q, h, r, round); err != nil {
			return err
		}
	}
	if len(r.called) > 0 && a.Object != nil && !a.Reinvoked() {
		r.output = a.Object.DeepCopyObject() // later plugins may modify the object
	}
	a.SetState(p, r)
	return nil
}

// mutateWith calls a webhook if the request matches, and applies the response.
func (p *Mutating) mutateWith(ctx context.Context, s *match.Subject, q *reviewBuilder, h indexedWebhook, r *reinvocationState, round int) error {
	matched, err := p.match(ctx, s, h)
	if matched == nil || err != nil {
		return err
	}
	if round > 0 && !r.due[h.id] {
		return nil // no first call in the second pass, even if the request only matches now
	}
	call, err := q.newCall(ctx, h, matched)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	suffix := fmt.Sprintf("round_%d_index_%d", round, h.index)
	decision := h.startDecision(s.Attributes)
	began := time.Now()
	changed, err := p.callAndPatch(ctx, s.Attributes, call, suffix)
	decision.End(err)
	p.annotateJSON(ctx, s.Attributes, mutationAnnotation+suffix, mutationRecord{h.configuration, h.spec.Name, &changed, nil, ""})
	took := time.Since(began)
	request.AddLatency(ctx, request.StageMutatingWebhooks, took)
	refused := p.handleResult(ctx, s.Attributes, h.configuredWebhook, suffix, took, err)
	if changed {
		s.RecordMutator(call.description(true))
		s.Reinvoke()
		r.markDue()
	}
	if h.reinvocable() {
		r.called[h.id] = true
	}
	if refused == nil && err != nil && ctx.Err() != nil {
		return timeoutError()
	}
	return refused
}

// mutationRecord is the JSON value of an audit annotation. It contains either Mutated, which reports whether
// the webhook changed the object, or the patch.
type mutationRecord struct {
	Configuration string          `json:"configuration"`
	Webhook       string          `json:"webhook"`
	Mutated       *bool           `json:"mutated,omitempty"`
	Patch         json.RawMessage `json:"patch,omitempty"`
	PatchType     string          `json:"patchType,omitempty"`
}

func (p *Mutating) annotateJSON(ctx context.Context, a *admission.Attributes, key string, value mutationRecord) {
	text, err := json.Marshal(value)
	if err != nil {
		p.config.Logger.Warn("encode the audit annotation of a webhook", "key", key, "err", err)
		return
	}
	p.annotate(ctx, a, key, string(text))
}
