package admissionregistration

import (
	"fmt"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"mainstay.dev/mainstay/internal/apis/builtin/validation/validationtest"
)

// oneRule returns a rule for the creation of the given resources.
func oneRule(resources ...string) admissionregistrationv1.RuleWithOperations {
	scope := admissionregistrationv1.AllScopes
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: resources, Scope: &scope},
	}
}

func selectorOf(value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{value}}}}
}

type hooks = admissionregistrationv1.ValidatingWebhookConfiguration

func validHooks() *hooks {
	url, effects := "https://example.com/a", admissionregistrationv1.SideEffectClassNone
	c := &hooks{Webhooks: []admissionregistrationv1.ValidatingWebhook{{
		Name: "a.example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}, SideEffects: &effects,
		AdmissionReviewVersions: []string{"v1", "v7"}, Rules: []admissionregistrationv1.RuleWithOperations{oneRule("pods")},
		MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "a", Expression: "object.spec.a == 1"}},
	}}}
	defaultValidatingWebhooks(c)
	return c
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	type hook = admissionregistrationv1.ValidatingWebhook
	one := func(change func(*hook)) func(*hooks) { return func(c *hooks) { change(&c.Webhooks[0]) } }
	url := func(url string) func(*hooks) { return one(func(h *hook) { *h.ClientConfig.URL = url }) }
	service := func(path string) func(*hooks) {
		return one(func(h *hook) {
			h.ClientConfig = admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "a", Name: "b", Path: &path}}
		})
	}
	condition := func(expression string) func(*hooks) {
		return one(func(h *hook) { h.MatchConditions[0].Expression = expression })
	}
	resources := func(resources ...string) func(*hooks) {
		return one(func(h *hook) { h.Rules[0].Resources = resources })
	}
	const client, rule = "webhooks[0].clientConfig", "webhooks[0].rules[0].resources"
	validationtest.Rules[hooks](validateValidatingWebhooks).Create(t, validHooks, []validationtest.Case[hooks]{
		{Name: "no such URL", Change: url(":"), Want: []string{client + ".url: Required value: url must be a valid URL"}},
		{Name: "service", Change: service("/a/b")},
		{Name: "service without a path", Change: service("")},
		{Name: "empty segments", Change: service("//"), Want: []string{client + `.service.path: Invalid value: "//": segment[0] may not be empty`}},
		{Name: "empty segment", Change: service("/a//b/"), Want: []string{"segment[1] may not be empty"}},
		{Name: "no name", Change: func(c *hooks) { service("/")(c); c.Webhooks[0].ClientConfig.Service.Name = "" }, Want: []string{client + ".service.namespace: Required value"}},
		{Name: "longest time", Change: one(func(h *hook) { *h.TimeoutSeconds = 30 })},
		{Name: "versions of others", Change: one(func(h *hook) { h.AdmissionReviewVersions = []string{"v7"} }), Want: []string{"must include at least one of v1, v1beta1"}},
		{Name: "authorizer", Change: condition("authorizer.requestResource.check('x').allowed()")},
		{Name: "parameters", Change: condition("params.a"), Want: []string{"undeclared reference to 'params'"}},
		{Name: "spaces", Change: condition("  "), Want: []string{"webhooks[0].matchConditions[0].expression: Required value"}},
		{Name: "too many conditions", Change: one(func(h *hook) {
			for i := range maxMatchConditions {
				h.MatchConditions = append(h.MatchConditions, admissionregistrationv1.MatchCondition{Name: fmt.Sprint(i), Expression: "true"})
			}
		}), Want: []string{"webhooks[0].matchConditions: Too many: 65: must have at most 64 items"}},
		{Name: "resources and subresources", Change: resources("*", "pods/status", "*/scale")},
		{Name: "all subresources", Change: resources("pods/*", "pods/status"), Want: []string{rule + `[1]: Invalid value: "pods/status": if 'pods/*' is present`}},
		{Name: "of all resources", Change: resources("*/scale", "pods/scale"), Want: []string{rule + `[1]: Invalid value: "pods/scale": if '*/scale' is present`}},
		{Name: "everything", Change: resources("*/*", "pods"), Want: []string{rule + `: Invalid value: ["*/*","pods"]: if '*/*' is present`}},
		{Name: "wildcard last", Change: resources("pods", "*")}, // as in kube-apiserver
		{Name: "wildcard first", Change: resources("*", "pods"), Want: []string{"if '*' is present, must not specify other resources without subresources"}},
	})
}

// TestOldWebhooks checks that a configuration can be updated even if it contains values that are no longer
// valid.
func TestOldWebhooks(t *testing.T) {
	t.Parallel()
	stored := func() *hooks {
		c := validHooks()
		h := &c.Webhooks[0]
		*h.SideEffects, h.AdmissionReviewVersions = admissionregistrationv1.SideEffectClassUnknown, []string{"v7"}
		h.NamespaceSelector = selectorOf("b c")
		h.MatchConditions[0].Expression = "gone()"
		c.Webhooks = append(c.Webhooks, *h.DeepCopy())
		return c
	}
	validationtest.Rules[hooks](validateValidatingWebhooks).Update(t, stored, []validationtest.Case[hooks]{
		{Name: "more of it", Change: func(c *hooks) {
			*c.Webhooks[1].SideEffects, c.Webhooks[1].AdmissionReviewVersions = admissionregistrationv1.SideEffectClassSome, []string{"v8"}
			c.Webhooks[1].ObjectSelector = selectorOf("c d")
		}},
		{Name: "no effects", Change: func(c *hooks) { c.Webhooks[0].SideEffects = nil }, Want: []string{"must specify one of None, NoneOnDryRun, Some, Unknown"}},
		{Name: "condition", Change: func(c *hooks) { c.Webhooks[1].MatchConditions[0].Name = "b" }, Want: []string{"webhooks[0].matchConditions[0].expression", "webhooks[1].matchConditions[0].expression"}},
	})
	validationtest.Rules[hooks](validateValidatingWebhooks).Update(t, validHooks, []validationtest.Case[hooks]{
		{Name: "new flaws", Change: func(c *hooks) {
			*c.Webhooks[0].SideEffects = admissionregistrationv1.SideEffectClassSome
			c.Webhooks[0].NamespaceSelector = selectorOf("b c")
			c.Webhooks = append(c.Webhooks, c.Webhooks[0])
		}, Want: []string{
			"webhooks[0].sideEffects", "webhooks[0].namespaceSelector", "webhooks[1].sideEffects", "webhooks[1].namespaceSelector",
			"webhooks[1].name: Duplicate value",
		}},
	})
}

type validatingPolicy = admissionregistrationv1.ValidatingAdmissionPolicy

func matchAll() *admissionregistrationv1.MatchResources {
	match := &admissionregistrationv1.MatchResources{
		ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: oneRule("pods")}},
	}
	defaultMatchResources(match)
	return match
}

func validPolicy() *validatingPolicy {
	p := &validatingPolicy{ObjectMeta: metav1.ObjectMeta{Name: "policy"}, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: matchAll(),
		Variables:        []admissionregistrationv1.Variable{{Name: "a", Expression: "object.spec.a"}, {Name: "b", Expression: "variables.a + 1"}},
		Validations:      []admissionregistrationv1.Validation{{Expression: "variables.b > 1", MessageExpression: "'b is ' + string(variables.b)"}},
		AuditAnnotations: []admissionregistrationv1.AuditAnnotation{{Key: "a", ValueExpression: "string(variables.b)"}},
	}}
	defaultValidatingPolicy(p)
	return p
}

func TestValidatingPolicy(t *testing.T) {
	t.Parallel()
	variable := func(name, expression string) func(*validatingPolicy) {
		return func(p *validatingPolicy) {
			p.Spec.Variables = append(p.Spec.Variables, admissionregistrationv1.Variable{Name: name, Expression: expression})
		}
	}
	rule := func(change func(*admissionregistrationv1.Validation)) func(*validatingPolicy) {
		return func(p *validatingPolicy) { change(&p.Spec.Validations[0]) }
	}
	params := func(version, kind string) func(*validatingPolicy) {
		return func(p *validatingPolicy) {
			p.Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: version, Kind: kind}
		}
	}
	validationtest.Rules[validatingPolicy](validateValidatingPolicy).Create(t, validPolicy, []validationtest.Case[validatingPolicy]{
		{Name: "parameters", Change: func(p *validatingPolicy) {
			params("example.com/v1", "Limit")(p)
			p.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "a", Expression: "params.a == 1"}}
			rule(func(v *admissionregistrationv1.Validation) { v.MessageExpression = "params.text" })(p)
		}, Want: []string{"must evaluate to string but got dyn"}},
		{Name: "bad group", Change: params("A/v1", "B"), Want: []string{"spec.paramKind.apiVersion: Invalid value: \"A\""}},
		{Name: "no version", Change: params("a/", "B"), Want: []string{"spec.paramKind.apiVersion: Invalid value: \"a/\": version must be specified"}},
		{Name: "no such version", Change: params("a/b/c", "B"), Want: []string{"unexpected GroupVersion string: a/b/c"}},
		{Name: "later variable", Change: variable("c", "variables.d"), Want: []string{"spec.variables[2].expression: Invalid value"}},
		{Name: "reserved", Change: variable("while", "1"), Want: []string{"spec.variables[2].name: Invalid value: \"while\": must be a valid CEL identifier"}},
		{Name: "authorizer in a message", Change: rule(func(v *admissionregistrationv1.Validation) {
			v.MessageExpression = "authorizer.path('/').check('get').reason()"
		}), Want: []string{"undeclared reference to 'authorizer'"}},
		{Name: "message of spaces", Change: rule(func(v *admissionregistrationv1.Validation) { v.Message, v.MessageExpression = " ", " " }), Want: []string{"spec.validations[0].messageExpression: Invalid value: \" \": must be non-empty", "spec.validations[0].message: Invalid value"}},
		{Name: "number in an annotation", Change: func(p *validatingPolicy) { p.Spec.AuditAnnotations[0].ValueExpression = "1" }, Want: []string{"must evaluate to one of [string null_type] but got int"}},
		{Name: "no annotation", Change: func(p *validatingPolicy) { p.Spec.AuditAnnotations[0].ValueExpression = "null" }},
		{Name: "long annotation", Change: func(p *validatingPolicy) {
			p.Spec.AuditAnnotations[0].ValueExpression = "'" + strings.Repeat("x", maxAnnotationExpression) + "'"
		}, Want: []string{"spec.auditAnnotations[0].valueExpression: Required value: must not exceed 5120 bytes in length"}},
		{Name: "without a name", Change: func(p *validatingPolicy) { p.Name = "" }, Want: []string{"spec.auditAnnotations[0].key: Invalid value: \"a\": requires metadata.name be non-empty"}},
		{Name: "without defaults", Change: func(p *validatingPolicy) {
			p.Spec.FailurePolicy, p.Spec.MatchConstraints.NamespaceSelector, p.Spec.MatchConstraints.ObjectSelector, p.Spec.MatchConstraints.MatchPolicy = nil, nil, nil, nil
		}, Want: []string{"failurePolicy: Required", "matchPolicy: Required", "namespaceSelector: Required", "objectSelector: Required"}},
	})
	validationtest.Rules[validatingPolicy](validateValidatingPolicy).Update(t, func() *validatingPolicy {
		stored := validPolicy()
		stored.Spec.Validations[0].Expression = "gone()"
		stored.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "a", Expression: "gone()"}}
		return stored
	}, []validationtest.Case[validatingPolicy]{
		{Name: "label", Change: func(p *validatingPolicy) { p.Labels = map[string]string{"a": "b"} }},
		{Name: "parameters", Change: params("v1", "ConfigMap"), Want: []string{"spec.matchConditions[0].expression", "spec.validations[0].expression"}},
	})
}

func TestValidatingPolicyStatus(t *testing.T) {
	t.Parallel()
	warning := func(ref, text string) func(*validatingPolicy) {
		return func(p *validatingPolicy) {
			p.Status.TypeChecking = &admissionregistrationv1.TypeChecking{ExpressionWarnings: []admissionregistrationv1.ExpressionWarning{{FieldRef: ref, Warning: text}}}
		}
	}
	validationtest.Rules[validatingPolicy](validateValidatingPolicyStatus).Update(t, validPolicy, []validationtest.Case[validatingPolicy]{
		{Name: "warning", Change: warning("spec.validations[0].expression", "x")},
		{Name: "no path", Change: warning("spec.validations[0", ""), Want: []string{"warning: Required value", "invalid JSONPath"}},
	})
}

func TestMutatingPolicy(t *testing.T) {
	t.Parallel()
	type mutatingPolicy = admissionregistrationv1.MutatingAdmissionPolicy
	mutation := func(m admissionregistrationv1.Mutation) func(*mutatingPolicy) {
		return func(p *mutatingPolicy) { p.Spec.Mutations[0] = m }
	}
	patch := func(expression string) admissionregistrationv1.Mutation {
		return admissionregistrationv1.Mutation{
			PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{Expression: expression},
		}
	}
	valid := func() *mutatingPolicy {
		p := &mutatingPolicy{Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: matchAll(), ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
			Mutations: []admissionregistrationv1.Mutation{{
				PatchType:          admissionregistrationv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: "Object{spec: Object.spec{a: 1}}"},
			}},
		}}
		defaultMutatingPolicy(p)
		return p
	}
	validationtest.Rules[mutatingPolicy](validateMutatingPolicy).Create(t, valid, []validationtest.Case[mutatingPolicy]{
		{Name: "patch", Change: mutation(patch("has(object.a) ? [JSONPatch{op: 'remove', path: '/a'}] : []"))},
		{Name: "object for a patch", Change: mutation(patch("Object{}")), Want: []string{"must evaluate to list(JSONPatch) but got Object"}},
		{Name: "types of mutations in a condition", Change: func(p *mutatingPolicy) {
			p.Spec.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "a", Expression: "Object{} == null"}}
		}, Want: []string{"undeclared reference to 'Object'"}},
		{Name: "deletions", Change: func(p *mutatingPolicy) {
			p.Spec.MatchConstraints.ResourceRules[0].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Delete}
		}, Want: []string{"spec.matchConstraints.resourceRules.operations: Unsupported value: \"DELETE\""}},
	})
}

func TestBindings(t *testing.T) {
	t.Parallel()
	type binding = admissionregistrationv1.ValidatingAdmissionPolicyBinding
	type mutatingBinding = admissionregistrationv1.MutatingAdmissionPolicyBinding
	deny := admissionregistrationv1.DenyAction
	actions := func(actions ...admissionregistrationv1.ValidationAction) func(*binding) {
		return func(b *binding) { b.Spec.ValidationActions = actions }
	}
	validationtest.Rules[binding](validateValidatingBinding).Create(t, func() *binding {
		return &binding{Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "policy", MatchResources: matchAll(), ParamRef: &admissionregistrationv1.ParamRef{Name: "Any Name", ParameterNotFoundAction: &deny},
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit, admissionregistrationv1.Deny},
		}}
	}, []validationtest.Case[binding]{
		{Name: "both", Change: actions(admissionregistrationv1.Warn, admissionregistrationv1.Deny), Want: []string{"must not contain both Deny and Warn"}},
		{Name: "parameter's name", Change: func(b *binding) { b.Spec.ParamRef.Name = "a/b" }, Want: []string{"spec.paramRef.name: Invalid value: \"a/b\": may not contain '/'"}},
		{Name: "no parameter", Change: func(b *binding) { b.Spec.ParamRef.Name = "" }, Want: []string{"spec.paramRef: Required value: one of name or selector must be specified"}},
	})
	validationtest.Rules[mutatingBinding](validateMutatingBinding).Create(t, func() *mutatingBinding {
		return &mutatingBinding{Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "policy"}}
	}, []validationtest.Case[mutatingBinding]{
		{Name: "deletions", Change: func(b *mutatingBinding) {
			b.Spec.MatchResources = matchAll()
			b.Spec.MatchResources.ResourceRules[0].Operations[0] = admissionregistrationv1.Delete
		}, Want: []string{"spec.matchResources.resourceRules.operations: Unsupported value"}},
	})
}
