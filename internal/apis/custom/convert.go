package custom

import (
	"context"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"mainstay.dev/mainstay/internal/apis/custom/conversion"
	"mainstay.dev/mainstay/internal/apis/custom/schema"
	"mainstay.dev/mainstay/internal/codec"
)

// usesWebhook reports whether a webhook converts the objects of a definition.
func usesWebhook(crd *apiextensionsv1.CustomResourceDefinition) bool {
	c := crd.Spec.Conversion
	return c != nil && c.Strategy == apiextensionsv1.WebhookConverter && c.Webhook != nil
}

// noneConversion returns a function that converts an object to a version with the strategy None. The function
// changes the apiVersion and prunes unknown fields.
func (h *handler) noneConversion(version string) func(codec.Object) (codec.Object, error) {
	gvk := h.gvk.GroupKind().WithVersion(version)
	return func(obj codec.Object) (codec.Object, error) {
		compiled, err := h.schemaOf(version)
		if err != nil {
			return nil, fmt.Errorf("convert %s to %s: %w", obj.GetName(), gvk.GroupVersion(), err)
		}
		obj.GetObjectKind().SetGroupVersionKind(gvk)
		if !compiled.preserveUnknown {
			compiled.Prune(content(obj), false)
		}
		return obj, nil
	}
}

// webhookConversion returns a function that converts an object to a version by calling the webhook, for callers
// without a context. The function uses the context Config.Lifetime and blocks during the call.
func (h *handler) webhookConversion(kind *codec.Kind, version string) func(codec.Object) (codec.Object, error) {
	gv := h.gvk.GroupKind().WithVersion(version).GroupVersion()
	return func(obj codec.Object) (codec.Object, error) {
		converted, err := h.convert(h.source.config.Lifetime, []codec.Object{obj}, kind.Version(gv))
		if err != nil {
			return nil, err
		}
		return converted[0], nil
	}
}

// convert converts objects by calling the webhook, and prunes unknown fields from the result. It blocks during
// the call. It implements codec.Kind.Convert.
func (h *handler) convert(ctx context.Context, objects []codec.Object, to *codec.Version) ([]codec.Object, error) {
	compiled, err := h.schemaOf(to.GVK.Version)
	if err != nil {
		return nil, fmt.Errorf("convert to %s: %w", to.GVK.GroupVersion(), err)
	}
	input := make([]*unstructured.Unstructured, len(objects))
	for i, obj := range objects {
		input[i] = obj.(*unstructured.Unstructured)
	}
	converter, done, err := h.derived.converter(ctx, h.source, h.name)
	if err != nil {
		return nil, err
	}
	defer done()
	output, err := converter.Convert(ctx, input, to.GVK.GroupVersion())
	if err != nil {
		return nil, err
	}
	converted := make([]codec.Object, len(output))
	for i, obj := range output {
		if err := compiled.coerce(obj.Object); err != nil {
			return nil, fmt.Errorf("convert %s to %s: %w", obj.GetName(), to.GVK.GroupVersion(), err)
		}
		converted[i] = obj
	}
	return converted, nil
}

// coerce prunes and normalizes a document from a webhook. It sets no defaults: as in kube-apiserver,
// only the stored version and the version sent to the client are defaulted.
func (c *compiled) coerce(doc map[string]any) error {
	if _, err := schema.CoerceMetadata(doc, false, false); err != nil {
		return err
	}
	if !c.preserveUnknown {
		c.Prune(doc, false)
	}
	_, err := c.CoerceEmbedded(nil, doc, false, false)
	return err
}

// converter returns the converter of the definition with the given name. It creates the converter on first
// use. The caller must call done after use.
func (g *generationState) converter(ctx context.Context, s *Source, name string) (c *conversion.Converter, done func(), err error) {
	g.mu.Lock()
	c = g.mu.converter
	g.mu.Unlock()
	if c != nil {
		return c, func() {}, nil
	}
	crd, err := s.read(ctx, name, "schema")
	if err != nil {
		return nil, nil, err
	}
	if !usesWebhook(crd) {
		// The definition has changed, and the request belongs to an earlier generation.
		return nil, nil, fmt.Errorf("definition %s no longer has a conversion webhook", name)
	}
	c, err = conversion.New(conversion.Config{Definition: name, Webhook: crd.Spec.Conversion.Webhook, Clients: s.webhooks, Metrics: s.conversions})
	if err != nil {
		return nil, nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.mu.converter != nil || g.lifetime.Err() != nil {
		return c, c.Close, nil // for this use only: another converter exists, or the generation ended
	}
	g.mu.converter = c
	return c, func() {}, nil
}

// dropConverterLocked closes the converter and its idle connections.
func (g *generationState) dropConverterLocked() {
	if g.mu.converter != nil {
		g.mu.converter.Close()
		g.mu.converter = nil
	}
}
