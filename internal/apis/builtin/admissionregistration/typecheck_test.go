package admissionregistration

import (
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"mainstay.dev/mainstay/internal/cel/typed"
)

// countingTypes resolves only the pods of the core group. It counts lookups.
type countingTypes struct{ lookups int }

func (c *countingTypes) KindOf(gvr schema.GroupVersionResource) schema.GroupVersionKind {
	if c.lookups++; gvr != (schema.GroupVersionResource{Version: "v1", Resource: "pods"}) {
		return schema.GroupVersionKind{}
	}
	return schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
}

func (c *countingTypes) TypeOf(schema.GroupVersionKind) *typed.Type { return nil }

// TestTypesToCheckIsBounded checks that the number of lookups is limited for rules with many combinations of
// groups, versions and resources.
func TestTypesToCheckIsBounded(t *testing.T) {
	t.Parallel()
	many := func(first, format string) []string {
		texts := []string{first}
		for i := range 3000 {
			texts = append(texts, fmt.Sprintf(format, i))
		}
		return texts
	}
	for _, tt := range []struct {
		name      string
		resources []string
		kinds     int
	}{
		{"unknown resources", many("pods", "r%d"), 1},
		{"subresources", many("pods/log", "r%d/status"), 0},
	} {
		rule := admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Rule: admissionregistrationv1.Rule{APIGroups: many("", "g%d"), APIVersions: many("v1", "v%d"), Resources: tt.resources},
		}}
		spec := &admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: &admissionregistrationv1.MatchResources{
			ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule, rule},
		}}
		types := &countingTypes{}
		if kinds := typesToCheck(types, spec); len(kinds) != tt.kinds {
			t.Errorf("%s: kinds %v", tt.name, kinds)
		}
		if types.lookups > 2*maxResourcesToCheck {
			t.Errorf("%s: %d lookups", tt.name, types.lookups)
		}
	}
}
