package webhooks

import (
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// BenchmarkNoMatch measures a request that matches none of the webhooks.
func BenchmarkNoMatch(b *testing.B) {
	for _, n := range []int{0, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := serve(b, nil)
			p, v := NewMutating(config()), NewValidating(config())
			for i := range n {
				spec := s.spec("/hook", func(spec *admissionregistrationv1.MutatingWebhook) {
					spec.Rules[0].Resources = []string{fmt.Sprint("kind", i)}
				})
				p.source.set(fmt.Sprint(i), []admissionregistrationv1.MutatingWebhook{spec})
				v.source.set(fmt.Sprint(i), []admissionregistrationv1.MutatingWebhook{spec})
			}
			p.source.rebuildIndexes()
			v.source.rebuildIndexes()
			ctx, a := b.Context(), creation(configMaps())
			b.ReportAllocs()
			for b.Loop() {
				if p.Mutate(ctx, a) != nil || v.Validate(ctx, a) != nil {
					b.Fatal("rejected")
				}
			}
		})
	}
}

// BenchmarkCall measures a call of one validating webhook that allows the request.
func BenchmarkCall(b *testing.B) {
	s := serve(b, map[string]responder{"/hook": allow()})
	v := validating(s.spec("/hook"))
	ctx, a := b.Context(), creation(configMaps())
	b.ReportAllocs()
	for b.Loop() {
		if err := v.Validate(ctx, a); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSet measures an update of one of 1,000 configurations.
func BenchmarkSet(b *testing.B) {
	s := serve(b, nil)
	p := NewMutating(config())
	specs := []admissionregistrationv1.MutatingWebhook{s.spec("/hook")}
	for i := range 1000 {
		p.source.set(fmt.Sprint(i), specs)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.source.set("0", specs)
		p.source.rebuildIndexes()
	}
}
