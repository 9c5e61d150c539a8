package rules

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"mainstay.dev/mainstay/internal/cel/environment"
)

// benchSchema has ten typical rules.
const benchSchema = `
type: object
x-kubernetes-validations:
- {rule: "self.metadata.name.size() <= 63"}
properties:
  spec:
    type: object
    required: [replicas, image]
    x-kubernetes-validations:
    - {rule: "self.minReplicas <= self.replicas"}
    - {rule: "self.replicas <= self.maxReplicas"}
    - {rule: "!has(self.tls) || self.tls.mode in ['Terminate', 'Passthrough']"}
    properties:
      replicas: {type: integer}
      minReplicas: {type: integer}
      maxReplicas: {type: integer}
      image: {type: string, maxLength: 200, x-kubernetes-validations: [{rule: "self.contains('/')"}]}
      class: {type: string, maxLength: 63, x-kubernetes-validations: [{rule: "self == oldSelf", message: immutable}]}
      host: {type: string, maxLength: 253, x-kubernetes-validations: [{rule: "self.matches('^[a-z.]+$')"}]}
      tls: {type: object, properties: {mode: {type: string, maxLength: 20}, secret: {type: string, maxLength: 63}}, x-kubernetes-validations: [{rule: "self.mode != 'Terminate' || has(self.secret)"}]}
      ports:
        type: array
        maxItems: 16
        x-kubernetes-list-type: map
        x-kubernetes-list-map-keys: [name]
        x-kubernetes-validations: [{rule: "self.all(p, p.port > 0)"}, {rule: "self.exists(p, p.name == 'http')"}]
        items: {type: object, required: [name], properties: {name: {type: string, maxLength: 20}, port: {type: integer}, protocol: {type: string, maxLength: 10}}}
      notes: {type: array, items: {type: string}}`

const benchObject = `
apiVersion: example.com/v1
kind: App
metadata: {name: shop, namespace: default, labels: {app: shop, tier: front}}
spec:
  replicas: 3
  minReplicas: 1
  maxReplicas: 9
  image: registry.example.com/shop/front
  class: large
  host: shop.example.com
  tls: {mode: Terminate, secret: shop-cert}
  ports: [{name: http, port: 80, protocol: TCP}, {name: https, port: 443, protocol: TCP}, {name: admin, port: 9000, protocol: TCP}]
  notes: [%s]`

func benchDoc(b testing.TB) any {
	return valueOf(b, strings.Replace(benchObject, "%s", strings.TrimSuffix(strings.Repeat("some words of no importance, ", 18), ", "), 1))
}

// BenchmarkValidate validates an object of 1 KB with ten rules.
func BenchmarkValidate(b *testing.B) {
	rules, doc := New(schemaOf(b, benchSchema), true), benchDoc(b)
	b.ReportAllocs()
	for b.Loop() {
		if errs, _ := rules.Validate(b.Context(), nil, doc, Options{Old: doc, Ratchet: true, Budget: Budget}); len(errs) > 0 {
			b.Fatal(errs)
		}
	}
}

// manyRules returns a schema with fifty rules, at 25 nodes of different types.
func manyRules() string {
	var s strings.Builder
	s.WriteString("type: object\nproperties:\n")
	for i := range 25 {
		fmt.Fprintf(&s, `  f%d: {type: object, properties: {a: {type: string, maxLength: %d}, l: {type: array, maxItems: 10, items: {type: integer}}}, x-kubernetes-validations: [
    {rule: "self.a.startsWith('a') && self.a != 'b%d'", message: wrong}, {rule: "self.l.all(x, x > %d)", messageExpression: "'not ' + self.a"}]}
`, i, i+1, i, i)
	}
	return s.String()
}

// BenchmarkCheck validates a definition with fifty rules.
func BenchmarkCheck(b *testing.B) {
	props := schemaOf(b, manyRules())
	b.ReportAllocs()
	for b.Loop() {
		var c Checker
		root := c.Root(props, nil)
		for name, member := range props.Properties {
			if errs := root.Member(name, &member, nil).Check(b.Context()); len(errs) > 0 {
				b.Fatal(errs)
			}
		}
	}
}

// BenchmarkMemory measures the memory of fifty compiled rules, and reports it per rule.
func BenchmarkMemory(b *testing.B) {
	props := schemaOf(b, manyRules())
	if _, err := environment.Base(); err != nil {
		b.Fatal(err)
	}
	doc := map[string]any{}
	for i := range 25 {
		doc[fmt.Sprintf("f%d", i)] = map[string]any{"a": "ax", "l": []any{int64(100)}}
	}
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		before := inUse()
		r := New(props, true)
		compiled := inUse()
		if errs, _ := r.Validate(b.Context(), nil, doc, Options{Budget: Budget}); len(errs) > 0 {
			b.Fatal(errs)
		}
		b.ReportMetric(float64(compiled-before)/50, "B/rule-unused")
		b.ReportMetric(float64(inUse()-before)/50, "B/rule")
		runtime.KeepAlive(r)
	}
}
