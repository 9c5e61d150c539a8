package rules

import "testing"

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
