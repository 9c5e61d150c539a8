package webhooks

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/codec"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// TestSelfDependencyWarning checks the warning about a webhook that can prevent its own restart.
func TestSelfDependencyWarning(t *testing.T) {
	t.Parallel()
	type spec = admissionregistrationv1.MutatingWebhook
	none := func(*spec) {}
	except := func(s *spec) {
		s.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"own"}},
		}}
	}
	for name, test := range map[string]struct {
		change func(*spec)
		want   string // substring of the warning; empty if there is none
	}{
		"everything": {none, `webhook "hook.example.com" receives requests about pods, services, endpoints, endpointslices in namespace "own", which contains its own service "svc"`},
		"pods alone": {func(s *spec) {
			s.Rules[0].Rule = admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}
		}, "requests about pods in namespace"},
		"other objects":     {func(s *spec) { s.Rules[0].APIGroups = []string{"apps"} }, ""},
		"ignored":           {ignore, ""},
		"its own namespace": {except, ""},
		"behind a URL":      {func(s *spec) { s.ClientConfig.Service = nil }, ""},
		"with conditions": {func(s *spec) {
			s.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "a", Expression: "true"}}
		}, ""},
		"by objects' labels": {func(s *spec) { s.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hook := spec{
				Name:         "hook.example.com",
				ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "own", Name: "svc"}},
				Rules: []admissionregistrationv1.RuleWithOperations{{
					Operations: []admissionregistrationv1.OperationType{"*"},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
				}},
			}
			test.change(&hook)
			r := &rest.Resource{GroupVersion: admissionregistrationv1.SchemeGroupVersion, Name: "mutatingwebhookconfigurations",
				Version: &codec.Version{GVK: admissionregistrationv1.SchemeGroupVersion.WithKind("MutatingWebhookConfiguration")}}
			ctx := requestContext(t)
			a := &admission.Attributes{Request: admission.Request{Operation: admission.Create, Resource: r},
				Object: &admissionregistrationv1.MutatingWebhookConfiguration{Webhooks: []spec{hook}}}
			if err := mutating().Mutate(ctx, a); err != nil {
				t.Fatal(err)
			}
			got := strings.Join(request.WarningsFrom(ctx), "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
