package rules

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
)

// TestInterruptedRules checks that the evaluation of rules without a cost stops when the context ends.
// Otherwise, the evaluation for many elements would take minutes.
func TestInterruptedRules(t *testing.T) {
	t.Parallel()
	const entries = 30_000
	for _, rule := range []string{"true", "oldSelf"} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			props := schemaOf(t, "{type: array, items: {type: boolean}}")
			props.Items.Schema.XValidations = slices.Repeat(apiextensions.ValidationRules{{Rule: rule}}, entries)
			cause := errors.New("the client has gone")
			ctx, cancel := context.WithCancelCause(t.Context())
			cancel(cause)
			errs, left := New(props, false).Validate(ctx, nil, slices.Repeat([]any{true}, entries), Options{Budget: Budget})
			if len(errs) != 1 || !strings.Contains(errs[0].Error(), cause.Error()) || left >= 0 {
				t.Errorf("errors %v, budget %d, want %v", errs, left, cause)
			}
		})
	}
}

// TestUnchanged checks that the schemas are compared at most once, and only if a rule is too expensive. A definition can have
// thousands of such rules, and a comparison takes a long time for a large schema.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	const cheap, expensive = "true", "self.all(a, self.all(b, a == b))"
	for _, test := range []struct {
		name, rule       string
		unchanged        bool
		calls, wantFault int
	}{
		{"cheap", cheap, false, 0, 0},
		{"changed", expensive, false, 1, 3},
		{"unchanged", expensive, true, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			calls, faults := 0, 0
			c := Checker{Unchanged: func() bool { calls++; return test.unchanged }}
			props := schemaOf(t, "{type: object, properties: {a: {type: array, items: {type: string}}}}")
			list := props.Properties["a"]
			for range 3 {
				faults += len(c.Root(props, nil).Member("a", withRule(&list, test.rule), nil).Check(t.Context()))
			}
			if calls != test.calls || faults != test.wantFault {
				t.Errorf("%d comparisons and %d faults, want %d and %d", calls, faults, test.calls, test.wantFault)
			}
		})
	}
}

// TestDeepRules checks that the rules of a deep schema are found in linear time, also if the names of its members
// cannot be expressed in CEL.
func TestDeepRules(t *testing.T) {
	t.Parallel()
	const depth, members = 3_000, 50_000
	for _, name := range []string{"a", "a b"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			props := &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{}}
			for i := range members {
				props.Properties["k"+strconv.Itoa(i)] = apiextensions.JSONSchemaProps{Type: "string"}
			}
			props.Properties["last"] = *withRule(&apiextensions.JSONSchemaProps{Type: "string"}, "false")
			value := map[string]any{"last": "x"}
			for range depth {
				props = &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{name: *props}}
				value = map[string]any{name: value}
			}
			withRule(props, "true")
			errs, _ := New(props, true).Validate(t.Context(), nil, value, Options{Budget: Budget})
			if len(errs) != 1 {
				t.Errorf("errors %v, want one", errs)
			}
			node, at := new(Checker).Root(props, nil), *props
			for range depth {
				at = at.Properties[name]
				node = node.Member(name, &at, nil)
			}
			last := at.Properties["last"]
			if errs := node.Member("last", &last, nil).Check(t.Context()); len(errs) > 0 {
				t.Error(errs)
			}
		})
	}
}

// TestInaccessibleMembers checks that members whose names cannot be expressed in CEL are accessible to their own
// rules, also in objects that differ only in such members.
func TestInaccessibleMembers(t *testing.T) {
	t.Parallel()
	props := schemaOf(t, `
type: object
properties:
  k: {type: object, properties: {a: {type: string}, b c: {type: object, properties: {d: {type: string, x-kubernetes-validations: [{rule: "self != 'x'"}]}}}}}
  l: {type: object, properties: {a: {type: string}, b c: {type: integer, x-kubernetes-validations: [{rule: "self < 3"}]}}}
  m: {type: array, items: {type: object, properties: {a b: {type: string, x-kubernetes-validations: [{rule: "self != 'y'"}]}}}}
  n: {type: array, items: {type: object, properties: {a b: {type: integer}}}}`)
	value := valueOf(t, `{k: {a: a, b c: {d: x}}, l: {a: a, b c: 3}, m: [{a b: "y"}], n: [{}]}`)
	errs, _ := New(props, false).Validate(t.Context(), nil, value, Options{Budget: Budget})
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	want := []string{
		`k.b c.d: Invalid value: "x": failed rule: self != 'x'`,
		`l.b c: Invalid value: 3: failed rule: self < 3`,
		`m[0].a b: Invalid value: "y": failed rule: self != 'y'`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("errors %q, want %q", got, want)
	}
}
