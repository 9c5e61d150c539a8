package policies

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/cel/policy"
	"mainstay.dev/mainstay/internal/request"
)

// TestAudit checks that the audit event contains the failures of bindings with the action Audit and the audit
// annotations of policies, and that failures are counted.
func TestAudit(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	p := NewValidating(&Config{Namespaces: inNamespace{}, Programs: new(policy.Programs), Metrics: metrics, Logger: slog.New(slog.DiscardHandler)})
	for name, failure := range map[string]admissionregistrationv1.FailurePolicyType{"audited.example.com": admissionregistrationv1.Fail, "ignored.example.com": admissionregistrationv1.Ignore} {
		spec := &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
		spec.Spec.FailurePolicy = &failure
		spec.Spec.Validations = []admissionregistrationv1.Validation{
			{Expression: "true"}, {Expression: "object.spec.containers.size() < 3", MessageExpression: "'at most 2\\n'"}, {Expression: "object.none == 1", Message: " none "},
		}
		spec.Spec.AuditAnnotations = []admissionregistrationv1.AuditAnnotation{
			{Key: "name", ValueExpression: "object.metadata.name + ' '"}, {Key: "nothing", ValueExpression: "null"}, {Key: "long", ValueExpression: "'" + strings.Repeat("x", 2*maxAnnotation) + "'"},
		}
		binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "b." + name}}
		binding.Spec.PolicyName, binding.Spec.ValidationActions = name, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit, admissionregistrationv1.Warn}
		p.update(func() {
			p.stored.policies[name], p.stored.bindings[name] = validatingDefinition(spec), validatingBinding(binding)
		})
	}
	ctx := request.NewContext(t.Context(), &request.Info{}, time.Now())
	request.SetAudit(ctx, &request.Audit{})
	if err := p.Validate(ctx, creation(podResource())); err != nil {
		t.Fatal(err)
	}
	got := request.AnnotationsFrom(ctx)
	wantFailures := `[{"message":"at most 2","policy":"audited.example.com","binding":"b.audited.example.com","expressionIndex":1,"validationActions":["Audit","Warn"]},` +
		`{"message":"expression 'object.none == 1' resulted in error: no such key: none","policy":"audited.example.com","binding":"b.audited.example.com","expressionIndex":2,"validationActions":["Audit","Warn"]},` +
		`{"message":"at most 2","policy":"ignored.example.com","binding":"b.ignored.example.com","expressionIndex":1,"validationActions":["Audit","Warn"]}]`
	if got[failureKey] != wantFailures {
		t.Errorf("failures: %s\nwant %s", got[failureKey], wantFailures)
	}
	if got["audited.example.com/name"] != "p" || len(got["audited.example.com/long"]) != maxAnnotation || len(got) != 5 {
		t.Errorf("%d annotations; the annotation name is %q", len(got), got["audited.example.com/name"])
	}
	want := []string{
		"allow invalid_error ignored.example.com b.ignored.example.com 1",
		"audit invalid_error audited.example.com b.audited.example.com 1",
		"audit no_error audited.example.com b.audited.example.com 1",
		"audit no_error ignored.example.com b.ignored.example.com 1",
		"warn invalid_error audited.example.com b.audited.example.com 1",
		"warn no_error audited.example.com b.audited.example.com 1",
		"warn no_error ignored.example.com b.ignored.example.com 1",
	}
	if got := counted(t, registry, "apiserver_validating_admission_policy_check_total"); !slices.Equal(got, want) {
		t.Errorf("counted %q\nwant %q", got, want)
	}
}

// counted returns one line with the label values and the value of each series of a counter, sorted.
func counted(t *testing.T, registry *prometheus.Registry, name string) []string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() != name {
				continue
			}
			line := ""
			for _, label := range metric.GetLabel() {
				line += label.GetValue() + " "
			}
			lines = append(lines, line+fmt.Sprint(metric.GetCounter().GetValue()))
		}
	}
	slices.Sort(lines)
	return lines
}
